package pick

import (
	"github.com/sievedb/sievedb/internal/disk/version"
)

// A database may have tens of thousands of tables that are small for its size: another engine wrote them, or they are
// from a time when it was smaller. Each costs a file, an entry of the MANIFEST, and an index and a filter with a cost
// of their own. When nothing else is due, neighbours of the last level, which has most of them, are merged.
const (
	// fewTables are so few that they are left alone.
	fewTables = 4096
	// smallShare is the part of the size for new tables below which the average must be.
	smallShare = 4
	// mergedBytes bounds a step, which has inputs of that size if a table is not larger.
	mergedBytes = 64 << 20
)

// TablesToMerge returns how many tables fewer the last level will have when its small tables are merged, 0 if that is
// not due.
func (v Picker) TablesToMerge(o Options) int {
	level := v.LastLevel()
	n, bytes, size := uint64(len(v.Levels[level].Files)), v.Levels[level].Bytes, v.TableSizeIn(level, o)
	if n <= fewTables || bytes/n >= size/smallShare {
		return 0
	}
	return int(n - bytes/size)
}

// pickSmall returns a merge of neighbours in the last level that at least halves their number, or nil. So it comes to
// an end. One runs at a time.
func (v Picker) pickSmall(o Options) *Compaction {
	if o.InBurst || v.TablesToMerge(o) == 0 {
		return nil
	}
	for _, c := range o.Running {
		if c.Unhurried {
			return nil
		}
	}
	level := v.LastLevel()
	size := v.TableSizeIn(level, o)
	for files := v.Levels[level].Files; len(files) > 0; {
		n, bytes := smallNeighbours(files, size)
		if uint64(n) >= 2*(bytes/size+1) {
			if c := v.build(level, level, files[:n], "many small tables", o); c != nil {
				c.Unhurried = true
				return c
			}
		}
		files = files[max(n, 1):]
	}
	return nil
}

// smallNeighbours returns how many of the first tables can be merged together to tables of a size, and their bytes.
func smallNeighbours(files []*version.FileMeta, size uint64) (n int, bytes uint64) {
	for ; n < len(files); n++ {
		f := files[n]
		if f.Compacting || f.Size >= size/2 || bytes+f.Size > max(size, mergedBytes) {
			break
		}
		bytes += f.Size
	}
	return n, bytes
}
