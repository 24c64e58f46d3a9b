//go:build race

package metamorphic

// defaultSeeds is fewer where the race detector makes everything slow.
const defaultSeeds = 6
