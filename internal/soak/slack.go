//go:build !race

package soak

// residentSlack is what resident memory of a short run may grow by: of the
// program itself, pages are in memory once they were first executed.
const residentSlack = 8 << 20
