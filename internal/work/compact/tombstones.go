package compact

import (
	"cmp"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// Space is freed by merging tables with those that have what their entries hide. Whether that is worth it depends on
// how many bytes these have, which the entries do not say: a tombstone, or a short value, can hide megabytes, or
// nothing. So before such a merge, or a flush for one, some of the entries are looked up in the tables below.

// WouldFree returns what a flush of mem, and the compaction that is due after it, would free, nil if that is not worth
// it. As long as writes go on (not quiet), only tombstones count, since flushes will come for the others. It may open
// tables. known is false while no compaction may begin, but one may later: in a pause, a hold, or after a failure.
func (s *Scheduler) WouldFree(mem *memtable.Memtable, quiet bool) (gain *version.Gain, known bool) {
	s.mu.Lock()
	mode, o := s.state.mode(), s.pickOptions()
	s.mu.Unlock()
	if mode != modeFree || mem.Len() == 0 || !quiet && mem.Tombstones() == 0 {
		return nil, mode == modeFree || mode >= modeStopped
	}
	o.Quiet = true
	v := s.host.RefVersion()
	defer v.Unref()
	f, dead := s.weighMemtable(v, mem, quiet)
	if quiet && dead >= o.LeastFreed() && dead >= uint64(mem.Capacity())/deadShare || pick.From(v).Frees(f, o, s.o.Cache.LearnCounts) {
		return f.Gain(), true
	}
	return nil, true
}

// deadShare is the part of a memtable, as a divisor, that older entries must have for a flush because of its log: that
// has room for a whole memtable anyway.
const deadShare = 5

const (
	// sampledEntries is about how many entries of a table or, of each kind, of a memtable are looked up.
	sampledEntries = 256
	// sampledBlocks is the number of a table's data blocks that have them.
	sampledBlocks = 32
	// unknownEntryBytes is the assumed size of an entry if they are not counted.
	unknownEntryBytes = 64
	// sampledBytes is how many bytes of values are read for that at most, or one value.
	sampledBytes = 32 << 20
)

// scale adds up what some entries free, which stand for others.
type scale struct {
	s       *Scheduler
	v       *version.Version
	level   int
	f       *version.FileMeta // the entries are of this table of level; nil: of a memtable
	readers []uint64          // as of Host.Snapshots
	lookup  sstable.Lookup

	looked uint64       // lookups so far
	found  version.Gain // their sum
	read   uint64       // bytes
}

func (s *Scheduler) newScale(v *version.Version, level int, f *version.FileMeta) *scale {
	w := &scale{s: s, v: v, level: level, f: f, readers: s.host.Snapshots()}
	w.lookup.NoFillCache = true
	return w
}

// stratum is that of retention.
func (w *scale) stratum(seq uint64) int {
	i, _ := slices.BinarySearch(w.readers, seq)
	return i
}

// hidden adds the bytes of the newest entry of a key below, which one with sequence number seq hides, to g, times
// times. found is false if there is none.
func (w *scale) hidden(g *version.Gain, user []byte, seq, times uint64) (found bool, err error) {
	if w.read > sampledBytes { // it is like those before
		g.All += times * w.found.All / w.looked
		g.Now += times * w.found.Now / w.looked
		return true, nil
	}
	w.looked++
	w.lookup.Init(user, base.MaxSeq)
	for level, f := range w.v.MayHold(user) {
		if w.f != nil && (level < w.level || f == w.f || level == 0 && f.Num > w.f.Num) {
			continue
		}
		res, err := w.s.o.Cache.GetHeld(f, &w.lookup)
		if err != nil {
			return false, err
		}
		if !res.Found {
			continue
		}
		w.read += uint64(len(res.Value))
		older, kind := base.SplitTrailer(res.Trailer)
		n := entryBytes(len(user), kind, res.Value)
		w.found.All, g.All = w.found.All+n, g.All+times*n
		if w.stratum(older) == w.stratum(seq) {
			w.found.Now, g.Now = w.found.Now+n, g.Now+times*n
		}
		return true, nil
	}
	return false, nil
}

// entryBytes returns the bytes of an entry, with its value wherever that is.
func entryBytes(user int, kind base.Kind, value []byte) uint64 {
	n := uint64(user + base.TrailerLen + len(value))
	if ref, err := base.DecodeValueRef(value); kind == base.KindRef && err == nil {
		n += ref.Len
	}
	return n
}

// weighMemtable returns about the table that a flush of mem would write, with its Gain, and how many bytes of mem have
// entries that newer ones hide.
func (s *Scheduler) weighMemtable(v *version.Version, mem *memtable.Memtable, quiet bool) (f *version.FileMeta, dead uint64) {
	it := mem.NewIter()
	it.First()
	f = &version.FileMeta{Smallest: it.Key()}
	it.Last()
	f.Largest = it.Key()
	w, gain := s.newScale(v, 0, nil), version.Gain{}
	defer w.lookup.Release()
	// Tombstones are a sample of their own: a few among many puts may hide most.
	tombstones := uint64(mem.Tombstones())
	every := [2]uint64{(uint64(mem.Len())-tombstones)/sampledEntries + 1, tombstones/sampledEntries + 1}
	var n [2]uint64
	var last []byte
	for ikey, value := range mem.All() {
		user := base.UserKey(ikey)
		if last != nil && s.o.Cmp.Compare(last, user) == 0 {
			dead += uint64(len(ikey) + len(value))
			continue
		}
		last = user
		f.Size += uint64(len(ikey) + len(value))
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		i := 0
		if kind == base.KindDelete {
			i = 1
		}
		if n[i]++; n[i]%every[i] == 0 && (quiet || i == 1) && !s.state.isClosed() {
			_, _ = w.hidden(&gain, user, seq, every[i]) // operations that need the table report the error
		}
	}
	f.SetCounts(&version.TableCounts{Entries: n[0] + n[1], Tombstones: n[1]})
	f.SetGain(&gain)
	return f, dead
}

// weigh sets the Gain of a table of level, and learns what is necessary to judge it. If that fails, it is as much as
// can be, so that a compaction reports the error.
func (s *Scheduler) weigh(v *version.Version, level int, f *version.FileMeta) {
	s.o.Cache.LearnCounts(f)
	pick.From(v).LearnBelow(level, f, s.o.Cache.LearnCounts)
	gain, err := s.sample(v, level, f)
	if err != nil {
		gain = version.Gain{All: f.Holds(), Now: f.Holds()}
	}
	f.SetGain(&gain)
}

func (s *Scheduler) sample(v *version.Version, level int, f *version.FileMeta) (g version.Gain, err error) {
	r, err := s.o.Cache.Ref(f)
	if err != nil {
		return g, err
	}
	defer r.Unref()
	blocks, bytes, err := r.DataBlocks()
	if err != nil || blocks == 0 {
		return g, err
	}
	entries := bytes / unknownEntryBytes
	if c := f.Counts(); c != nil && c.Entries > 0 {
		entries = c.Entries
	}
	sampled := max(1, min(blocks, sampledBlocks, int(sampledBytes*uint64(blocks)/bytes)))
	t := tableSample{scale: s.newScale(v, level, f), every: entries*uint64(sampled)/uint64(blocks)/sampledEntries + 1}
	defer t.lookup.Release()
	if err := r.SampleBlocks(sampled, t.entry); err != nil {
		return g, err
	}
	share := float64(blocks) / float64(sampled)
	g.All, g.Now = uint64(share*float64(t.gain.All)), uint64(share*float64(t.gain.Now))
	g.Stale = t.stale()
	return g, nil
}

// tableSample is a sample of a table's entries.
type tableSample struct {
	*scale
	gain     version.Gain
	every, n uint64 // each of that many entries is looked up, and how many there were
	block    uint64 // offset of the previous entry's data block
	last     []byte // its key
	bytes    uint64 // of all entries
	expiring []expiringBytes
}

// expiringBytes are the bytes of an entry that expires.
type expiringBytes struct{ at, bytes uint64 }

func (t *tableSample) entry(block uint64, ikey, value []byte) error {
	if t.s.state.isClosed() {
		return base.ErrClosed
	}
	user := base.UserKey(ikey)
	seq, kind := base.SplitTrailer(base.Trailer(ikey))
	own := entryBytes(len(user), kind, value)
	t.bytes += own
	newer, err := t.newer(block, user)
	if err != nil {
		return err
	}
	t.last = append(t.last[:0], ikey...)
	if newer > seq {
		if t.gain.All += own; t.stratum(newer) == t.stratum(seq) {
			t.gain.Now += own
		}
		return nil
	}
	if at, ok := expiry.Decode(value); ok && kind == base.KindSet && t.s.o.Expiry.Under(user) {
		t.expiring = append(t.expiring, expiringBytes{at, own})
	}
	if t.n++; t.n%t.every != 0 {
		return nil
	}
	found, err := t.hidden(&t.gain, user, seq, t.every)
	if err == nil && !found && kind == base.KindDelete {
		if t.gain.All += own * t.every; t.stratum(seq) == 0 {
			t.gain.Now += own * t.every
		}
	}
	return err
}

// newer returns the sequence number of the entry before one of key user, if it has the same key, or else 0. At the
// beginning of a block, which comes after another one than the last, it returns that of the table's newest entry of the
// key.
func (t *tableSample) newer(block uint64, user []byte) (seq uint64, err error) {
	if len(t.last) > 0 && block == t.block {
		if t.s.o.Cmp.Compare(base.UserKey(t.last), user) == 0 {
			seq, _ = base.SplitTrailer(base.Trailer(t.last))
		}
		return seq, nil
	}
	t.block = block
	t.lookup.Init(user, base.MaxSeq)
	res, err := t.s.o.Cache.GetHeld(t.f, &t.lookup)
	if err == nil && res.Found {
		seq, _ = base.SplitTrailer(res.Trailer)
	}
	return seq, err
}

// stale returns Gain.Stale.
func (t *tableSample) stale() uint64 {
	slices.SortFunc(t.expiring, func(a, b expiringBytes) int { return cmp.Compare(a.at, b.at) })
	expired := uint64(0)
	for _, e := range t.expiring {
		if expired += e.bytes; expired >= t.bytes/2 {
			return e.at
		}
	}
	return 0
}
