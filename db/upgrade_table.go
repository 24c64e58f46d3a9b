package db

import (
	"bytes"
	"encoding/binary"
	stderrors "errors"
	"math"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/vfs"
	"github.com/sievedb/sievedb/sstable"
)

// look says whether a table needs new filters.
func (u *upgrade) look(level int, f *manifest.FileMeta) tableState {
	if state := u.known[f]; state != 0 {
		return state
	}
	state, err := u.inspect(level, f)
	if err != nil {
		state = tableDamaged
		if stderrors.Is(err, ErrCorruption) {
			u.damaged(err)
		} else { // the file may be sound
			u.failed = err
		}
	}
	if state == tableCurrent {
		u.report.Current++
	}
	u.known[f] = state
	return state
}

func (u *upgrade) damaged(err error) {
	u.report.Damaged++
	if u.damage == nil {
		u.damage = err
	}
}

// inspect is look for a table that was not seen yet. The error is about the file.
func (u *upgrade) inspect(level int, f *manifest.FileMeta) (tableState, error) {
	r, err := u.d.tables.ref(f)
	if err != nil {
		return 0, err
	}
	defer r.Unref()
	keys, exact, err := keysOf(r, f.Size)
	if err != nil {
		return 0, err
	}
	var before uint64
	filters, err := r.AllFilters()
	sizes, whole := filters.Whole()
	low, high := u.policies(level)
	want := u.filtersOf(low, keys)
	if err == nil && whole && exact && (u.same(sizes, want) || u.same(sizes, u.filtersOf(high, keys))) {
		return tableCurrent, nil
	}
	if err == nil || stderrors.Is(err, ErrCorruption) { // a damaged filter is a reason the more
		before = filters.Bytes()
	} else {
		return 0, err
	}
	for _, m := range want {
		u.report.FilterBytesAfter += uint64(m.bytes)
	}
	u.report.FilterBytesBefore += before
	l := &u.levels[level]
	l.tables++
	l.before += rateOf(r)
	l.after += rateOfMade(want)
	return tableStale, nil
}

// same reports whether a table's filters are those of the policy, and no others: the names, and the
// sizes where they tell the bits a key.
func (u *upgrade) same(sizes map[string]int, want []madeFilter) bool {
	names := map[string]madeFilter{}
	for _, m := range want {
		names[m.name] = m
		if alias := u.tables.FilterAliases[m.name]; alias != "" {
			names[alias] = m
		}
	}
	for name, m := range names {
		if size, ok := sizes[name]; !ok || m.exact && size != m.bytes {
			return false
		}
	}
	return len(sizes) == len(names)
}

// keysOf returns how many user keys a table has: exactly, if its writer noted it, else as
// many entries as its first block has, in each. It is never more than the file has bytes:
// a file may say anything, and filters of so many keys are made to learn their sizes.
func keysOf(r *sstable.Reader, fileSize uint64) (keys uint64, exact bool, err error) {
	if p, ok := r.Properties(); ok && p.FilterKeys > 0 {
		return min(p.FilterKeys, fileSize), p.FilterKeys <= fileSize, nil
	}
	blocks, _, err := r.DataBlocks()
	if err == nil {
		err = r.SampleBlocks(1, func(uint64, []byte) error { keys++; return nil })
	}
	return min(keys*uint64(blocks), fileSize), false, err
}

// policies returns the policies for tables of a level, by their bits a key: under a budget some tables
// get one bit more than others.
func (u *upgrade) policies(level int) (low, high uint64) {
	if u.bits == nil {
		return 0, 0
	}
	bits := float64(u.bits[level])
	return uint64(bits), uint64(math.Ceil(bits))
}

// filtersOf returns what the policy makes of so many keys, whatever they are.
func (u *upgrade) filtersOf(bits, keys uint64) []madeFilter {
	of := madeOf{bits, keys}
	if made, ok := u.made[of]; ok || keys == 0 {
		return made
	}
	policy := u.policy
	if u.bits != nil {
		policy = filterBits(bits).policy(policy, 0)
	}
	kinds := filter.Kinds(policy)
	made := make([]madeFilter, len(kinds))
	arena, all := make([]byte, 0, 8*keys), make([][]byte, keys)
	for i := range all {
		arena = binary.BigEndian.AppendUint64(arena, uint64(i))
		all[i] = arena[8*i:]
	}
	for i, p := range kinds {
		b := p.CreateFilter(nil, all)
		_, bloom := p.(filter.BloomPolicy)
		made[i] = madeFilter{name: p.Name(), bytes: len(b), rate: -1, exact: bloom || p == filter.LegacyBloom}
		if s, ok := filter.ShapeOf(p, b); ok {
			made[i].rate = s.PredictedRate(keys)
		}
	}
	u.made[of] = made
	return made
}

// rateOf is the rate of false positives to expect of a table.
func rateOf(r *sstable.Reader) float64 {
	if r.FilterSize() == 0 {
		return 1
	}
	if p := r.FilterFigures().Predicted; p >= 0 {
		return p
	}
	return 1
}

// rateOfMade is that of the filters that it shall have; lookups ask the first.
func rateOfMade(made []madeFilter) float64 {
	if len(made) == 0 || made[0].rate < 0 {
		return 1
	}
	return made[0].rate
}

// copyTable writes table f anew, with the policy's filters. syncs is given its file. After an
// error no file is left.
func (u *upgrade) copyTable(level int, f *manifest.FileMeta, num uint64, syncs *tableSyncs) (*manifest.FileMeta, error) {
	r, err := u.d.tables.ref(f)
	if err != nil {
		return nil, err
	}
	defer r.Unref()
	path := u.d.path(base.FileTable, num)
	file, err := u.d.fs.Create(path)
	if err != nil {
		return nil, err
	}
	table, err := u.copyTo(file, r, f, level, num)
	if err != nil {
		_ = file.Close() // the file goes away
		u.d.removeFile(path)
		return nil, err
	}
	_ = syncs.add(file) // wait tells
	return table, nil
}

func (u *upgrade) copyTo(file vfs.File, r *sstable.Reader, f *manifest.FileMeta, level int, num uint64) (*manifest.FileMeta, error) {
	o := u.tables
	o.Filter = u.policy
	if u.bits != nil {
		o.Filter = u.bits[level].policy(u.policy, num)
	}
	w := sstable.NewWriter(file, o)
	if err := w.CopyBlocks(r, func(int) error { return u.interrupted() }); err != nil {
		return nil, err
	}
	if !bytes.Equal(w.Smallest(), f.Smallest) || !bytes.Equal(w.Largest(), f.Largest) {
		err := base.Corruptf("table", -1, "its first and last key are not those that the MANIFEST says")
		return nil, base.InFile(err, u.d.path(base.FileTable, f.Num), -1)
	}
	if _, err := w.Finish(); err != nil {
		return nil, err
	}
	return manifest.NewFileMeta(num, w.Size(), w.Smallest(), w.Largest()), nil
}
