package db

import (
	"sync"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/limit/share"
)

const (
	// minMemory is the least Options.Cache.Memory. It is for tests: ten tables of 2 MiB need more.
	minMemory = 64 << 10
	maxMemory = 1 << 51
	// blockShare is the part of Options.Cache.Memory, one in so many, that filters and indexes leave to blocks.
	blockShare = 8
)

// ProcessMemory returns how many bytes the process may use now: the least of the machine's memory, GOMEMLIMIT and, on
// Linux, the limits of its control groups; 1 GiB if nothing says it. The default of Options.Cache.Memory is made of it.
func ProcessMemory() int64 { return share.ProcessMemory() }

// processMemory is read once, since no limit of a process changes often and Options are made often.
var processMemory = sync.OnceValue(share.DefaultTableMemory)

// defaultMemory returns the default of Memory. Size is set.
func (o *CacheOptions) defaultMemory(shared bool) int64 {
	if shared { // the bound is that of the Resources
		return min(max(o.Size, minMemory), maxMemory)
	}
	blocks := max(o.Size, 0)
	return min(blocks, maxMemory-processMemory()) + processMemory()
}

// leastBlocks returns the part of Memory that is for blocks only.
func (o *CacheOptions) leastBlocks() int64 { return min(max(o.Size, 0), o.Memory/blockShare) }

// tableMemory returns what filters and indexes may use.
func (o *CacheOptions) tableMemory() int64 { return o.Memory - o.leastBlocks() }

// besideBlocks returns what filters and indexes may use without taking room from blocks, and how much they may take
// of that. The latter is below 0 if they may take all.
func (o *CacheOptions) besideBlocks() (free, most int64) {
	if o.ChargeTables {
		return 0, -1
	}
	blocks := max(o.Size, 0)
	return max(o.Memory-blocks, 0), max(blocks-o.leastBlocks(), 0)
}

// validateMemory rejects a Memory that would have no effect.
func (o *CacheOptions) validateMemory(shared *Resources) error {
	if o.Memory != 0 && shared != nil {
		return errors.New("sievedb: Options.Cache.Memory is set together with Options.Resources, whose CacheSize bounds the memory " +
			"of tables; unset one of the two")
	}
	return nil
}
