package pick

import (
	"cmp"
	"slices"

	"github.com/sievedb/sievedb/internal/disk/version"
)

// The shares of the bytes of value tables that nothing refers to, in per cent, from which on they are collected: in a
// free moment, and before anything else. With the first, value tables have at most a quarter more than what lives.
const (
	garbageDue    = 20
	garbageUrgent = 35
	// garbageFar is the share at which writers are slowed as much as they can be.
	garbageFar = 60
	// leastGarbage is how much of a table must be garbage for it to be collected with others.
	leastGarbage = garbageDue / 2
	// mostCollected is the largest number of tables that are collected together.
	mostCollected = 64
)

// leastCollected returns how many bytes of garbage are worth a collection.
func leastCollected(maxLevelBase uint64) uint64 { return maxLevelBase / 8 }

// GarbageLoad says how far collections of values have fallen behind, without the value tables in aside: 0 below the
// share of garbage from which on they come first, 1 where it is far above that. Little garbage, of which none is
// collected, does not count.
func (v Picker) GarbageLoad(aside []*version.FileMeta, maxLevelBase uint64) float64 {
	size, garbage := v.ValueBytes()
	for _, f := range aside {
		if i := slices.IndexFunc(v.ValueFiles(), func(t version.ValueTable) bool { return t.ID == f.Num }); i >= 0 {
			size, garbage = size-f.Size, garbage-v.ValueFiles()[i].Garbage()
		}
	}
	if garbage < max(version.ValueTableSize, 2*leastCollected(maxLevelBase)) {
		return 0
	}
	share := 100 * float64(garbage) / float64(size)
	return max(0, min(1, (share-garbageUrgent)/(garbageFar-garbageUrgent)))
}

// level0Waits reports whether level 0 is due and nothing merges it. Writers, who stop once it is full, need it before
// values are collected, however much garbage there is: that slows them as well.
func (v Picker) level0Waits(o Options) bool {
	return len(v.Levels[0].Files) >= o.L0Trigger && !slices.ContainsFunc(o.Running, func(c *Compaction) bool { return c.Level == 0 })
}

// pickValues returns a compaction that copies what lives in the value tables with the most garbage, if the garbage of
// those that are not set aside is more than share per cent of them; otherwise nil. One runs at a time.
func (v Picker) pickValues(share uint64, o Options) *Compaction {
	size, garbage := v.ValueBytes()
	if len(v.Values) == 0 || o.NoValues || garbage < leastCollected(o.MaxLevelBase) || garbage < size/100*share || collecting(o) {
		return nil
	}
	size, garbage = 0, 0
	var tables []version.ValueTable
	for _, t := range v.ValueFiles() {
		if t.File.Compacting {
			continue
		}
		size, garbage = size+t.File.Size, garbage+t.Garbage()
		if garbageShare(t) >= leastGarbage {
			tables = append(tables, t)
		}
	}
	if len(tables) == 0 || garbage < leastCollected(o.MaxLevelBase) || garbage < size/100*share {
		return nil
	}
	slices.SortFunc(tables, func(a, b version.ValueTable) int { return cmp.Compare(garbageShare(b), garbageShare(a)) })
	return v.collectionOf(tables, "values that nothing refers to")
}

// collecting reports whether a collection is running.
func collecting(o Options) bool {
	return slices.ContainsFunc(o.Running, func(c *Compaction) bool { return c.Level == version.ValuesLevel })
}

// collectionOf returns the collection of as many of the first tables as have live values for one new value table.
func (v Picker) collectionOf(tables []version.ValueTable, reason string) *Compaction {
	c := &Compaction{Version: v.Version, Level: version.ValuesLevel, OutputLevel: version.ValuesLevel, Reason: reason}
	live := uint64(0)
	for i, t := range tables {
		if live += t.File.Size - t.Garbage(); i > 0 && (live > version.ValueTableSize || i == mostCollected) {
			break
		}
		c.Inputs = append(c.Inputs, t.File)
	}
	return c
}

// fewValueTables is the number of value tables, and smallValues the number that makes one of full size, from which on
// those of small flushes are collected although they have no garbage.
const (
	fewValueTables = 64
	smallValues    = 8
)

// pickSmallValues returns a collection of the smallest value tables if there are many small ones, or nil. It makes one
// of several, so it comes to an end.
func (v Picker) pickSmallValues(o Options) *Compaction {
	n := uint64(len(v.ValueFiles()))
	size, _ := v.ValueBytes()
	if n <= fewValueTables || size/n >= version.ValueTableSize/smallValues || o.NoValues || o.InBurst || collecting(o) {
		return nil
	}
	tables := slices.DeleteFunc(slices.Clone(v.ValueFiles()), func(t version.ValueTable) bool { return t.File.Compacting })
	slices.SortFunc(tables, func(a, b version.ValueTable) int { return cmp.Compare(a.File.Size, b.File.Size) })
	if c := v.collectionOf(tables, "many small value tables"); len(c.Inputs) >= smallValues {
		c.Unhurried = true
		return c
	}
	return nil
}

// garbageShare returns how much of a file is garbage, in per cent.
func garbageShare(t version.ValueTable) float64 {
	return 100 * float64(t.Garbage()) / float64(t.File.Size)
}
