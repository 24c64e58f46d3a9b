package repair

import (
	"bytes"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// foundTable is a table file of the directory and the result of reading it.
type foundTable struct {
	dirFile
	line *File

	dead bool // known to be unused, and therefore read only if it may fill a gap
	fill bool // its entries fill gaps; see Repairer.findFillers
	// recall means that a compaction which the MANIFEST does not know may have made the table from tables that
	// the MANIFEST names. An entry with sequence number 0 had no older version below it. So it is newer
	// than one on the last level, with a number up to maxSeq.
	recall     bool
	err        error
	gaps       []keyRange // where keys may be missing
	rawValues  uint64     // bytes of the values
	declared   uint64     // how many entries the table had, 0 if that is unknown
	expiryKeys uint64     // sstable.Properties.ExpiryKeys
	// The fields below are known for tables that were read; the bounds are valid only if err is nil.
	entries           uint64
	smallest, largest []byte // internal keys
	// maxSeq is the greatest number before compactions changed numbers to 0, if it is known.
	minSeq, maxSeq uint64
	seqsLost       bool // that number is unknown

	refs   base.RefSums // what entries refer to
	refErr error        // some of them are missing or damaged
	lost   lostValues
	// salvaged has what can be read of a value table; nil for one that is intact.
	salvaged map[valueHash]bool
}

// intact reports whether the table can stay unchanged.
func (t *foundTable) intact() bool { return !t.dead && t.err == nil && t.entries > 0 }

func (t *foundTable) meta() *version.FileMeta {
	m := version.NewFileMeta(t.Num, uint64(t.Size), t.smallest, t.largest)
	m.OldSuffix = t.Kind == base.FileOldTable
	return m
}

// scanTables reads every table that may be in use.
func (r *Repairer) scanTables() error {
	r.lastSeq = max(r.lastSeq, r.manifest.lastSeq)
	for _, f := range r.ofKind(base.FileTable, base.FileOldTable) {
		t := &foundTable{dirFile: f, dead: r.manifest.dead[f.Num]}
		t.line = &File{Name: f.name, Level: -1, Bytes: uint64(f.Size)}
		r.tables = append(r.tables, t)
		if t.dead {
			continue
		}
		if err := r.scanTable(t, true); err != nil {
			return err
		}
		r.lastSeq = max(r.lastSeq, t.maxSeq)
	}
	return nil
}

// scanTable reads a table of a level, or else a value table.
func (r *Repairer) scanTable(t *foundTable, level bool) error {
	twins := false
	if !level {
		t.salvaged = map[valueHash]bool{}
	}
	rep, err := r.salvageTable(t, func(ikey, value []byte) error {
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		if kind == base.KindRef && level {
			if err := r.refer(t, ikey, value); err != nil {
				return err
			}
		}
		if t.rawValues += uint64(len(value)); !level && kind == base.KindSet {
			t.salvaged[hashOf(base.UserKey(ikey), seq, uint64(len(value)))] = true
		}
		r.order.add(r.cmp, base.UserKey(ikey), t)
		if t.entries == 0 {
			t.smallest = bytes.Clone(ikey)
			t.minSeq = seq
		} else if base.SameVersion(r.cmp, t.largest, ikey) {
			twins = true
		}
		t.entries++
		t.largest = append(t.largest[:0], ikey...)
		t.minSeq, t.maxSeq = min(t.minSeq, seq), max(t.maxSeq, seq)
		return nil
	})
	if err == nil {
		err = rep.Newer // nothing was changed so far, and its entries must not be left out
	}
	if err != nil {
		return err
	}
	if twins && rep.Err == nil {
		err := base.Corruptf("table", -1, "it has two entries of the same key and sequence number, want one")
		rep.Err = base.InFile(err, r.path(t.name), -1)
	}
	if rep.Err == nil {
		rep.Err = t.refErr
	}
	if rep.Err == nil && level && !slices.Equal(rep.Refs, t.refs.List()) {
		err := base.Corruptf("block of references", -1, "it says other references than the entries have")
		rep.Err = base.InFile(err, r.path(t.name), -1)
	}
	r.order.note(t, rep.Disordered)
	t.err, t.gaps = rep.Err, gapsOf(rep)
	t.declared, t.expiryKeys = rep.Properties.Entries, rep.Properties.ExpiryKeys
	t.line.Entries, t.line.Blocks = rep.Entries, rep.Blocks
	t.line.BlocksLost, t.line.BytesLost = rep.BlocksLost, rep.BytesLost
	if rep.Err != nil {
		t.line.Damage = rep.Err.Error()
	}
	if t.entries > 0 && t.minSeq == 0 {
		return r.recallSeqs(t)
	}
	return nil
}

// recallSeqs determines the former sequence numbers of entries that have 0 now.
func (r *Repairer) recallSeqs(t *foundTable) error {
	reader, err := r.openTable(t.name)
	if err != nil {
		t.seqsLost = true
		if errors.Is(err, base.ErrCorruption) {
			return nil
		}
		return err
	}
	p, ok := reader.Properties()
	if t.seqsLost = !ok || p.LargestSeq > base.MaxSeq; !t.seqsLost {
		t.maxSeq = max(t.maxSeq, p.LargestSeq)
	}
	return reader.Close()
}

func (r *Repairer) openTable(name string) (*sstable.Reader, error) {
	path := r.path(name)
	f, err := r.fs.Open(path)
	if err != nil {
		return nil, err
	}
	return sstable.Open(f, sstable.ReaderOptions{Comparer: r.cmp, Name: path})
}

func (r *Repairer) salvageTable(t *foundTable, fn func(ikey, value []byte) error) (sstable.SalvageReport, error) {
	path := r.path(t.name)
	f, err := r.fs.Open(path)
	if err != nil {
		return sstable.SalvageReport{}, err
	}
	o := sstable.ReaderOptions{
		Comparer: r.cmp, Policies: r.opts.Policies, RangePolicies: r.opts.RangePolicies, Name: path,
	}
	rep, err := sstable.Salvage(f, o, fn)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return rep, err
}
