"""Families of responses that are normal given weights of the rows; `base.Family` says what a new one needs."""

from sparse_langevin.linear.families.base import Family
from sparse_langevin.linear.families.classes import Classes
from sparse_langevin.linear.families.counts import Counts
from sparse_langevin.linear.families.student import Student

__all__ = ["Classes", "Counts", "Family", "Student"]
