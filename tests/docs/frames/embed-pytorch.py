"""A program that torchrun starts."""
import under_torchrun
# the block
