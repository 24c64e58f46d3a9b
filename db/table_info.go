package db

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// TableInfo describes a table, for tools.
type TableInfo struct {
	Level   int
	FileNum uint64
	Name    string
	Bytes   uint64
	// Smallest and Largest are copies of the user keys at the ends of its range.
	Smallest, Largest []byte
	// Entries and Deletions count its entries and the tombstones among them; -1 if the table,
	// written by another program, does not say.
	Entries, Deletions int64
	// Filter says in words how its filter is used, FilterPolicy is the filter's name, and
	// FilterBytes its size in memory.
	Filter, FilterPolicy string
	FilterBytes          uint64
}

// Tables describes every table, level by level. It opens each of them.
func (d *DB) Tables() ([]TableInfo, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	s := d.finder.Ref()
	defer s.Version.Unref()
	var infos []TableInfo
	var failed error
	s.Version.Files(func(level int, f *version.FileMeta) {
		info := TableInfo{
			Level: level, FileNum: f.Num, Name: f.Name(), Bytes: f.Size, Entries: -1, Deletions: -1,
			Smallest: append([]byte{}, base.UserKey(f.Smallest)...), Largest: append([]byte{}, base.UserKey(f.Largest)...),
		}
		r, err := d.tables.Ref(f)
		if err != nil {
			failed = errors.CombineErrors(failed, err)
			info.Filter = "the table cannot be opened"
			infos = append(infos, info)
			return
		}
		defer r.Unref()
		if p, ok := r.Properties(); ok {
			info.Entries, info.Deletions = int64(p.Entries), int64(p.Deletions)
		}
		status := r.FilterStatus()
		info.Filter, info.FilterPolicy, info.FilterBytes = status.State.String(), status.Policy, r.FilterSize()
		infos = append(infos, info)
	})
	return infos, failed
}

// ValueTableInfo describes a value table; see TableOptions.SeparateValues.
type ValueTableInfo struct {
	FileNum uint64
	Name    string // of the file
	Bytes   uint64 // of the file
	// ValueBytes is the number of bytes of its values before compression, and LiveBytes how many of them
	// tables refer to. The rest is garbage, which is collected when there is enough of it.
	ValueBytes, LiveBytes uint64
}

// ValueTables describes every value table, in ascending order of their numbers. It opens none.
func (d *DB) ValueTables() ([]ValueTableInfo, error) {
	if d == nil || d.closed.Load() {
		return nil, ErrClosed
	}
	s := d.finder.Ref()
	defer s.Version.Unref()
	var infos []ValueTableInfo
	for _, t := range s.Version.ValueFiles() {
		infos = append(infos, ValueTableInfo{t.File.Num, t.File.Name(), t.File.Size, t.File.ValueBytes(), t.Live})
	}
	return infos, nil
}
