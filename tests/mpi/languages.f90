! A request that C has started is ended by Fortran. Prints "ok" once, if the sum is right on all ranks.
program languages
  use mpi
  implicit none
  integer :: ierr, rank, ranks, request, right, all_right
  integer, external :: start_in_c, sum_in_c
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  request = start_in_c()
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  right = merge(1, 0, sum_in_c() == ranks * (ranks + 1) / 2)
  call MPI_Allreduce(right, all_right, 1, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD, ierr)
  if (rank == 0 .and. all_right == 1) print '(a)', 'ok'
  call MPI_Finalize(ierr)
end program
