//go:build !race

package metamorphic

// defaultSeeds is how many histories run in some 25 seconds on two cores.
const defaultSeeds = 80
