package version

// The sizes of tables that grow with the database, in bytes.
const (
	// LeastTableSize is the size of LevelDB's tables.
	LeastTableSize = 2 << 20
	// MaxTableSize bounds the bytes that a compaction rewrites for one table of the level above, and the parts of a
	// table that a lookup reads to open it.
	MaxTableSize = 64 << 20
	// grownTables is the number of tables of the last level from which they grow.
	grownTables = 2048
)

// GrownTableSize returns the size for the tables of a last level of that many bytes, at most most: 2 MiB up to 4 GiB,
// and then a size at which the number of tables stays the same.
func GrownTableSize(lastLevel, most uint64) uint64 {
	return max(LeastTableSize, min(lastLevel/grownTables, most, MaxTableSize))
}

// LoadTableSize returns the size for the next table of a load, after which the last level will have at least that many
// bytes. A load does not know how much will follow, so its first tables would be too many if they were not larger than
// those of a compaction.
func LoadTableSize(lastLevel, most uint64) uint64 {
	const ahead = 4
	return GrownTableSize(ahead*lastLevel, most)
}

// Bytes returns the size of all tables, those of values included.
func (v *Version) Bytes() uint64 {
	bytes := v.valueSize
	for i := range v.Levels {
		bytes += v.Levels[i].Bytes
	}
	return bytes
}

// LastLevelBytes returns the size of the lowest level that has tables.
func (v *Version) LastLevelBytes() uint64 { return v.Levels[v.LastLevel()].Bytes }

// LastLevel returns the lowest level that has tables, or the lowest of all if none has.
func (v *Version) LastLevel() int {
	for level := NumLevels - 1; level > 0; level-- {
		if len(v.Levels[level].Files) > 0 {
			return level
		}
	}
	return NumLevels - 1
}
