! Every collective of Fortran that a preload takes, once blocking and once with a request, by mpif.h's interface (the module mpi)
! or, with -DF08, by mpi_f08's. Prints "ok" once. Values are known by hand.
#ifdef F08
#define HANDLE(kind) type(kind)
#define STATUSES(n) type(MPI_Status) :: statuses(n)
#define FIRST_STATUS statuses(1)
#else
#define HANDLE(kind) integer
#define STATUSES(n) integer :: statuses(MPI_STATUS_SIZE, n)
#define FIRST_STATUS statuses(:, 1)
#endif

program fortran
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer, parameter :: most = 16
  integer :: rank, ranks, ierr, failures, all_failures, i, total, level, turn
  integer :: mine(most), sum(most), words(most), blocks(most), counts(most), displs(most), ones(most), steps(most)
  double precision :: real_in(3), real_out(3)
  HANDLE(MPI_Request) :: request
  logical :: with_requests

  call MPI_Init_thread(MPI_THREAD_SINGLE, level, ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  failures = 0
  total = ranks * (ranks - 1) / 2
  ones = 1
  do i = 1, most
    steps(i) = i - 1
    counts(i) = i          ! rank i - 1 has i elements
    displs(i) = i * (i - 1) / 2
  end do

  do turn = 1, 2
    with_requests = turn == 2
    call reductions()
    call moves()
    call lists()
    if (with_requests) then
      call MPI_Ibarrier(MPI_COMM_WORLD, request, ierr)
      call finish()
    else
      call MPI_Barrier(MPI_COMM_WORLD, ierr)
    end if
  end do
  call every_wait()

  call MPI_Scan(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)  ! which is MPI's
  if (rank == ranks - 1 .and. all_failures == 0) print '(a)', 'ok'
  call MPI_Finalize(ierr)

contains

  subroutine expect(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    print *, 'rank', rank, 'requests', with_requests, ': ', what
    failures = failures + 1
  end subroutine

  subroutine finish()
    if (with_requests) call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call expect(ierr == MPI_SUCCESS, 'a result')
  end subroutine

  subroutine reductions()
    mine = rank + 1
    sum = -1
    if (with_requests) then
      call MPI_Iallreduce(mine, sum, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Allreduce(mine, sum, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(all(sum(1:4) == total + ranks) .and. sum(5) == -1, 'allreduce')

    real_out = [1d0, 2d0, dble(rank)]
    if (with_requests) then
      call MPI_Iallreduce(MPI_IN_PLACE, real_out, 3, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Allreduce(MPI_IN_PLACE, real_out, 3, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(all(real_out == [1d0, 2d0, dble(ranks - 1)]), 'allreduce in place')

    real_in = dble(rank)
    real_out = -1
    if (with_requests) then
      call MPI_Ireduce(real_in, real_out, 3, MPI_DOUBLE_PRECISION, MPI_SUM, ranks - 1, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Reduce(real_in, real_out, 3, MPI_DOUBLE_PRECISION, MPI_SUM, ranks - 1, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(all(real_out == merge(total, -1, rank == ranks - 1)), 'reduce')

    mine = steps
    sum = -1
    if (with_requests) then
      call MPI_Ireduce_scatter_block(mine, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Reduce_scatter_block(mine, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(sum(1) == rank * ranks .and. sum(2) == -1, 'reduce_scatter_block')

    sum = -1
    if (with_requests) then
      call MPI_Ireduce_scatter(mine, sum, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Reduce_scatter(mine, sum, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    do i = 1, rank + 1
      call expect(sum(i) == ranks * (displs(rank + 1) + i - 1), 'reduce_scatter')
    end do
  end subroutine

  subroutine moves()
    words = merge(42, -1, rank == ranks - 1)
    if (with_requests) then
      call MPI_Ibcast(words, 5, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Bcast(words, 5, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(all(words(1:5) == 42), 'bcast')

    blocks = -1
    if (with_requests) then
      call MPI_Iallgather(rank, 1, MPI_INTEGER, blocks, 1, MPI_INTEGER, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Allgather(rank, 1, MPI_INTEGER, blocks, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(all(blocks(1:ranks) == steps(1:ranks)), 'allgather')

    blocks = -1
    blocks(rank + 1) = 7 * rank
    if (with_requests) then
      call MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, blocks, 1, MPI_INTEGER, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, blocks, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(all(blocks(1:ranks) == 7 * steps(1:ranks)), 'allgather in place')

    mine = 100 * rank + steps
    if (with_requests) then
      call MPI_Ialltoall(mine, 1, MPI_INTEGER, blocks, 1, MPI_INTEGER, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Alltoall(mine, 1, MPI_INTEGER, blocks, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(all(blocks(1:ranks) == 100 * steps(1:ranks) + rank), 'alltoall')

    blocks = -1
    if (with_requests) then
      call MPI_Igather(rank, 1, MPI_INTEGER, blocks, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Gather(rank, 1, MPI_INTEGER, blocks, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(all(blocks(1:ranks) == merge(steps(1:ranks), -1, rank == 0)), 'gather')

    sum = -1
    if (with_requests) then
      call MPI_Iscatter(blocks, 1, MPI_INTEGER, sum, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Scatter(blocks, 1, MPI_INTEGER, sum, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(sum(1) == rank .and. sum(2) == -1, 'scatter')
  end subroutine

  subroutine lists()
    integer :: everything
    everything = ranks * (ranks + 1) / 2
    mine = 10 * rank + steps
    blocks = -1
    if (with_requests) then
      call MPI_Iallgatherv(mine, rank + 1, MPI_INTEGER, blocks, counts, displs, MPI_INTEGER, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Allgatherv(mine, rank + 1, MPI_INTEGER, blocks, counts, displs, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(is_listed(blocks) .and. blocks(everything + 1) == -1, 'allgatherv')

    blocks = -1
    if (with_requests) then
      call MPI_Igatherv(mine, rank + 1, MPI_INTEGER, blocks, counts, displs, MPI_INTEGER, 1, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Gatherv(mine, rank + 1, MPI_INTEGER, blocks, counts, displs, MPI_INTEGER, 1, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(rank /= 1 .or. is_listed(blocks), 'gatherv')

    sum = -1
    if (with_requests) then
      call MPI_Iscatterv(blocks, counts, displs, MPI_INTEGER, sum, rank + 1, MPI_INTEGER, 1, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Scatterv(blocks, counts, displs, MPI_INTEGER, sum, rank + 1, MPI_INTEGER, 1, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(all(sum(1:rank + 1) == mine(1:rank + 1)) .and. sum(rank + 2) == -1, 'scatterv')

    mine = 100 * rank + steps
    blocks = -1
    if (with_requests) then
      call MPI_Ialltoallv(mine, ones, steps, MPI_INTEGER, blocks, ones, steps, MPI_INTEGER, MPI_COMM_WORLD, request, ierr)
    else
      call MPI_Alltoallv(mine, ones, steps, MPI_INTEGER, blocks, ones, steps, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    end if
    call finish()
    call expect(all(blocks(1:ranks) == 100 * steps(1:ranks) + rank), 'alltoallv')
  end subroutine

  ! What rank r gave, 10 r + 0, 1, ..., stands at its place.
  logical function is_listed(list)
    integer, intent(in) :: list(:)
    integer :: r, k
    is_listed = .true.
    do r = 0, ranks - 1
      do k = 1, r + 1
        is_listed = is_listed .and. list(displs(r + 1) + k) == 10 * r + k - 1
      end do
    end do
  end function

  ! Two collectives and a message to oneself, ended by every function that ends requests.
  subroutine every_wait()
    integer :: way, sums(2), token, index, left, done, indices(4)
    logical :: flag
    HANDLE(MPI_Request) :: requests(4)
    STATUSES(4)
    do way = 1, 8
      sums = -1
      token = -1
      call MPI_Iallreduce(rank, sums(1), 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1), ierr)
      call MPI_Irecv(token, 1, MPI_INTEGER, rank, way, MPI_COMM_WORLD, requests(2), ierr)
      call MPI_Iallreduce(rank, sums(2), 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, requests(3), ierr)
      call MPI_Isend(way, 1, MPI_INTEGER, rank, way, MPI_COMM_WORLD, requests(4), ierr)
      left = 4
      flag = .false.
      select case (way)
      case (1)
        call MPI_Waitall(4, requests, statuses, ierr)
      case (2)
        do i = 1, 4
          call MPI_Waitany(4, requests, index, MPI_STATUS_IGNORE, ierr)
        end do
      case (3)
        do while (left > 0)
          call MPI_Waitsome(4, requests, done, indices, MPI_STATUSES_IGNORE, ierr)
          left = left - done
        end do
      case (4)
        do while (.not. flag)
          call MPI_Testall(4, requests, flag, MPI_STATUSES_IGNORE, ierr)
        end do
      case (5)
        do while (left > 0)
          call MPI_Testany(4, requests, index, flag, MPI_STATUS_IGNORE, ierr)
          if (flag) left = left - 1
        end do
      case (6)
        do while (left > 0)
          call MPI_Testsome(4, requests, done, indices, MPI_STATUSES_IGNORE, ierr)
          left = left - done
        end do
      case (7)
        do i = 1, 4
          flag = .false.
          do while (.not. flag)
            call MPI_Test(requests(i), flag, MPI_STATUS_IGNORE, ierr)
          end do
        end do
      case (8)
        do i = 1, 4
          flag = .false.
          do while (.not. flag)
            call MPI_Request_get_status(requests(i), flag, FIRST_STATUS, ierr)  ! Open MPI never ends it without a status
          end do
        end do
        call expect(requests(1) /= MPI_REQUEST_NULL, 'request_get_status')
        do i = 1, 4
          call MPI_Wait(requests(i), MPI_STATUS_IGNORE, ierr)
        end do
      end select
      do i = 1, 4
        call expect(requests(i) == MPI_REQUEST_NULL, 'a request is left')
      end do
      call expect(sums(1) == total .and. sums(2) == ranks - 1 .and. token == way, 'what requests brought')
    end do
  end subroutine
end program
