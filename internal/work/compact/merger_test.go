package compact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/pick"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// A case of the model below: the versions of one key, newest first, and what a merge makes of them.
type history struct {
	key      string
	versions []keyVersion
}

// keyVersion is one entry of a key. Values say what the filter makes of them: "keep", "drop" or "raise".
type keyVersion struct {
	seq     uint64
	kind    base.Kind
	value   string
	expires uint64 // of a key under "t/"
}

// mergeCase is what surrounds the entries.
type mergeCase struct {
	readers []uint64 // besides the newest one
	below   bool     // a level below the output has tables that cover all keys
	filter  bool
	now     uint64
	hidden  uint64 // the time of the oldest snapshot
}

const newestSeq = 40

// testFilter drops values that begin with "drop" and replaces those that begin with "raise".
func testFilter(_, value []byte) ([]byte, bool) {
	switch {
	case strings.HasPrefix(string(value), "drop"):
		return nil, false
	case strings.HasPrefix(string(value), "raise"):
		return []byte(strings.ToUpper(string(value))), true
	}
	return value, true
}

// histories returns one key for every combination of two versions: each at one of five sequence numbers, before and
// after the snapshots, and each a tombstone or one of several values.
func histories() (all []history) {
	shapes := []keyVersion{
		{kind: base.KindDelete}, {kind: base.KindSet, value: "keep"}, {kind: base.KindSet, value: "drop"}, {kind: base.KindSet, value: "raise"},
		{kind: base.KindSet, value: "keep", expires: 50}, {kind: base.KindSet, value: "keep", expires: 150},
		{kind: base.KindSet, value: "raise", expires: 250},
	}
	seqs := []uint64{30, 20, 10, 5, 0}
	add := func(versions ...keyVersion) {
		prefix := "k/"
		if slices.ContainsFunc(versions, func(v keyVersion) bool { return v.expires > 0 }) {
			prefix = "t/"
		}
		all = append(all, history{fmt.Sprintf("%s%04d", prefix, len(all)), versions})
	}
	for i, newer := range seqs {
		for _, a := range shapes {
			a.seq = newer
			add(a)
			for _, older := range seqs[i+1:] {
				for _, b := range shapes {
					b.seq = older
					add(a, b)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b history) int { return strings.Compare(a.key, b.key) })
	return all
}

// want returns what a merge leaves of a history. It is written from the readers' side: what each of them sees, and what
// later merges and levels below need.
func (c *mergeCase) want(h history) (left []string) {
	readers := append(slices.Clone(c.readers), newestSeq)
	underTTL := strings.HasPrefix(h.key, "t/")
	for i, v := range h.versions {
		seen := slices.ContainsFunc(readers, func(at uint64) bool { // some reader has it as the newest version
			return v.seq <= at && (i == 0 || h.versions[i-1].seq > at)
		})
		if !seen {
			continue
		}
		// The newest version of a key is changed unless a snapshot sees it.
		snapshotSees := slices.ContainsFunc(c.readers, func(at uint64) bool { return v.seq <= at })
		was := v.kind
		if i == 0 && v.kind == base.KindSet {
			hiddenUntil := c.now
			if snapshotSees {
				hiddenUntil = c.hidden
			}
			switch expired := v.expires > 0 && v.expires <= hiddenUntil; {
			case expired:
				v.kind = base.KindDelete
			case snapshotSees || !c.filter:
			default:
				if value, keep := testFilter(nil, []byte(v.value)); keep {
					v.value = string(value)
				} else {
					v.kind = base.KindDelete
				}
			}
		}
		dropped := v.kind != was
		lowest := v.seq <= slices.Min(readers) // all readers see it or a newer one
		switch {
		case v.kind == base.KindDelete && lowest && !c.below, dropped && v.seq == 0:
		case v.kind == base.KindDelete:
			left = append(left, fmt.Sprintf("%s@%d deleted", h.key, v.seq))
		default:
			seq := v.seq
			if lowest && !c.below {
				seq = 0
			}
			value := v.value
			if underTTL {
				value = string(expiry.Append(nil, v.expires, []byte(value)))
			}
			left = append(left, fmt.Sprintf("%s@%d=%s", h.key, seq, value))
		}
	}
	return left
}

func TestMergesKeepWhatReadersNeed(t *testing.T) {
	all := histories()
	require.Greater(t, len(all), 500)
	for _, readers := range [][]uint64{nil, {7}, {15}, {25}, {7, 15, 25}, {30}, {35}} {
		for _, below := range []bool{false, true} {
			for _, filter := range []bool{false, true} {
				c := mergeCase{readers: readers, below: below, filter: filter, now: 200, hidden: 100}
				if len(readers) == 0 {
					c.hidden = c.now
				}
				t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { c.check(t, all) })
			}
		}
	}
}

func (c *mergeCase) check(t *testing.T, all []history) {
	policy := expiry.New([][]byte{[]byte("t/")}, func() time.Time { return time.UnixMilli(int64(c.now)) })
	st := newTestStore(t, func(o *storeOptions) {
		o.Expiry = policy
		if c.filter {
			o.Tuning.Filter = testFilter
		}
	})
	if c.below {
		st.putNumbered(6, set("a", ""), set("z", ""))
	}
	var entries []entry
	var want []string
	for _, h := range all {
		for _, v := range h.versions {
			e := entry{h.key, v.seq, v.kind, v.value}
			if v.kind == base.KindSet && strings.HasPrefix(h.key, "t/") {
				e.value = string(expiry.Append(nil, v.expires, []byte(v.value)))
			}
			entries = append(entries, e)
		}
		want = append(want, c.want(h)...)
	}
	st.putNumbered(0, entries...)
	st.mu.Lock()
	st.last, st.readers = newestSeq, c.readers
	for range c.readers {
		st.times = append(st.times, c.hidden)
	}
	st.mu.Unlock()
	policy.Now()
	claim := st.claimFiles(0, 5)
	defer st.finish(claim, nil)
	got := st.merged(claim)
	require.Equal(t, want, got)
}

// If newer versions of a key were in one table and older ones in the next of the same level, a compaction could move
// the newer ones below the older ones (LevelDB issues 320 and 376).
func TestCompactionSplitsNoKeyBetweenTables(t *testing.T) {
	st := newTestStore(t, nil)
	all := numbered(0, 100)
	for i := range 200 { // a snapshot sees each of them, so the merge keeps them all
		all = append(all, set(testKey(50), fmt.Sprintf("%0100d", i)))
		st.readers = append(st.readers, uint64(101+i))
		st.times = append(st.times, 0)
	}
	st.put(0, all...)
	st.put(0, set(testKey(0), ""), set(testKey(99), ""))
	require.NoError(t, st.compactLevel(t.Context(), 0, nil, nil))
	files := st.files(6)
	require.Greater(t, len(files), 3)
	for i := range files[1:] {
		require.Negative(t, base.Bytewise.Compare(base.UserKey(files[i].Largest), base.UserKey(files[i+1].Smallest)), "two tables share a key")
	}
	require.Len(t, st.content(6), 99+200+2, "of the hundred keys, one has only later versions")
}

// Tables whose entries do not ascend, or whose keys are none, are damaged: the merge says so.
func TestAMergeReportsKeysOutOfOrder(t *testing.T) {
	st := newTestStore(t, nil)
	file := st.put(0, numbered(0, 3)...)
	c := &pick.Compaction{Inputs: []*version.FileMeta{file}}
	for name, keys := range map[string][2]entry{
		"descending keys":      {{key: "b", seq: 1, kind: base.KindSet}, {key: "a", seq: 2, kind: base.KindSet}},
		"ascending numbers":    {{key: "a", seq: 1, kind: base.KindSet}, {key: "a", seq: 2, kind: base.KindSet}},
		"the same entry twice": {{key: "a", seq: 1, kind: base.KindSet}, {key: "a", seq: 1, kind: base.KindSet}},
	} {
		m := merger{s: st.Scheduler, cmp: base.Bytewise.Compare, c: c}
		newKey, err := m.follow(base.AppendInternalKey(nil, []byte(keys[0].key), keys[0].seq, keys[0].kind))
		require.NoError(t, err)
		require.True(t, newKey)
		_, err = m.follow(base.AppendInternalKey(nil, []byte(keys[1].key), keys[1].seq, keys[1].kind))
		require.ErrorIs(t, err, base.ErrCorruption, name)
		require.ErrorContains(t, err, file.Name()+" is damaged")
	}
	m := merger{s: st.Scheduler, cmp: base.Bytewise.Compare, c: c}
	_, err := m.follow([]byte("short"))
	require.ErrorIs(t, err, base.ErrCorruption)
	require.ErrorContains(t, err, "a key of 5 bytes is not an internal key")
}

// A merge looks now and then whether it must stop, and says why.
func TestAMergeStopsForAReason(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for want, stop := range map[error]func(st *testStore, m *merger){
		base.ErrClosed:   func(st *testStore, _ *merger) { st.Close() },
		context.Canceled: func(_ *testStore, m *merger) { m.job.ctx = cancelled },
		ErrStopped:       func(_ *testStore, m *merger) { m.job.stopped.Store(true) },
	} {
		st := newTestStore(t, nil)
		c := &pick.Compaction{Version: st.set.Current(), OutputLevel: 6}
		m := merger{s: st.Scheduler, cmp: base.Bytewise.Compare, c: c, job: &mergeJob{s: st.Scheduler, ctx: t.Context()}}
		require.NoError(t, m.stopReason())
		stop(st, &m)
		require.Equal(t, want, m.stopReason())
		m.work = lookWork
		require.Equal(t, want, m.entry([]byte("unread"), nil))
		require.Zero(t, m.work)
	}
}

// Close waits for a merge of small tables, unless they have far more in them than their size says.
func TestAMergeThatCloseWaitsForIsShort(t *testing.T) {
	st := newTestStore(t, nil)
	c := &pick.Compaction{Version: st.set.Current(), OutputLevel: 6}
	job := &mergeJob{s: st.Scheduler, ctx: t.Context(), finishes: true, retention: retention{visible: []uint64{1000}}}
	m := merger{s: st.Scheduler, cmp: base.Bytewise.Compare, c: c, job: job, piece: &mergePiece{}}
	key := func(seq uint64) []byte { return base.AppendInternalKey(nil, []byte("k"), seq, base.KindSet) }
	m.ikey, m.stratum = key(1000), job.retention.stratum(1000)
	st.Close()
	value := make([]byte, lookWork)
	for n := range uint64(maxFinishedLooks) { // older versions of one key are dropped
		require.NoError(t, m.entry(key(999-n), value))
	}
	require.Equal(t, base.ErrClosed, m.entry(key(1), value))
}

// The value that a filter returns has a limit, which is lower under a prefix of expiry.
func TestAFilterThatReturnsTooMuchFailsTheCompaction(t *testing.T) {
	policy := expiry.New([][]byte{[]byte("t/")}, func() time.Time { return time.UnixMilli(1) })
	for key, most := range map[string]int{"k": 100, "t/k": 100 - expiry.HeaderLen} {
		for _, size := range []int{most, most + 1} {
			st := newTestStore(t, func(o *storeOptions) {
				o.MaxValue, o.Expiry = 100, policy
				o.Tuning.Filter = func(_, _ []byte) ([]byte, bool) { return make([]byte, size), true }
			})
			st.put(0, set(key, string(expiry.Append(nil, expiry.Never, []byte("short")))))
			err := st.Compact(t.Context(), nil, nil)
			if size == most {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, base.ErrTooLarge)
			require.ErrorContains(t, err, fmt.Sprintf("returned a value of %d bytes, and at most 100", size))
			require.Empty(t, st.strayTables())
		}
	}
}

// An entry without an envelope under a prefix is left for its readers, who report it.
func TestAMergeKeepsAValueWithoutAnEnvelope(t *testing.T) {
	st := newTestStore(t, func(o *storeOptions) {
		o.Expiry = expiry.New([][]byte{[]byte("t/")}, nil)
		o.Tuning.Filter = func(_, _ []byte) ([]byte, bool) { panic("it is not called") }
	})
	st.put(0, set("t/a", "raw"))
	require.NoError(t, st.Compact(t.Context(), nil, nil))
	require.Equal(t, []string{"t/a@0=raw"}, st.content(6))
	require.NoError(t, st.failed)
	require.False(t, errors.Is(st.Status().Err, base.ErrCorruption))
}

// An older version of the key in a level below must not come back. When the merge reaches that, nothing is left.
func TestADroppedValueHidesOlderOnes(t *testing.T) {
	st := newTestStore(t, func(o *storeOptions) { o.Tuning.Filter = testFilter })
	resume, err := st.Pause(t.Context()) // the tombstone stays
	require.NoError(t, err)
	defer resume()
	st.put(6, set("a", "first a"), set("m", "first m"), set("z", "first z"))
	st.put(0, set("m", "drop 1"))
	st.put(0, set("m", "drop 2"))
	require.NoError(t, st.compactClaimed(t.Context(), st.claimFiles(0, 5)))
	require.Equal(t, []string{"m@5 deleted"}, st.content(5))
	require.NoError(t, st.Compact(t.Context(), nil, nil))
	require.Equal(t, []string{"a@0=first a", "z@0=first z"}, st.content(6))
}

// An entry that lost its number above an older entry would be hidden by that one.
//
//make:portable
func TestSequenceNumbersStayAboveOlderEntries(t *testing.T) {
	st := newTestStore(t, nil)
	st.put(6, set("a", "older"), set("b", "older"))
	st.put(0, set("a", "newer"))
	st.put(0, set("a", "newest"))
	c := st.claimFiles(0, 5)
	defer st.finish(c, nil)
	require.Equal(t, []string{"a@4=newest"}, st.merged(c))
}

// fates says what becomes of an entry that no newer one of its stratum hides. A "*" matches everything.
var fates = []struct {
	entry   string // a value, a tombstone, or a value that has been dropped
	seq     string // 0 or above
	stratum string // 0: all readers see it; or above
	below   string // whether a level below the output may have its key
	oldest  string // whether the merge has the oldest entries of its keys
	want    fate
}{
	{"value", "0", "0", "*", "*", entryZeroed}, // it has the number already
	{"value", "above", "0", "*", "yes", entryZeroed},
	{"value", "above", "0", "*", "no", entryKept},
	{"value", "above", "above", "*", "*", entryKept},
	{"tombstone", "*", "0", "no", "*", entryDropped},
	{"tombstone", "0", "0", "yes", "*", entryZeroed}, // only other programs write one
	{"tombstone", "above", "0", "yes", "*", entryKept},
	{"tombstone", "above", "above", "*", "*", entryKept},
	{"dropped", "0", "0", "*", "*", entryDropped}, // nothing older exists
	{"dropped", "above", "0", "no", "*", entryDropped},
	{"dropped", "above", "0", "yes", "*", entryKept}, // as a tombstone, which hides what is below
	{"dropped", "above", "above", "*", "*", entryKept},
}

// Every combination is in exactly one row of the table, and each row is needed.
func TestEveryEntryHasItsFate(t *testing.T) {
	yes := map[bool]string{true: "yes", false: "no"}
	above := func(n uint64) string {
		if n == 0 {
			return "0"
		}
		return "above"
	}
	used := make([]bool, len(fates))
	check := func(name string, e considered, oldest bool) {
		var matches []int
		for i, f := range fates {
			fields := [][2]string{
				{f.entry, name}, {f.seq, above(e.seq)}, {f.stratum, above(uint64(e.stratum))}, {f.below, yes[e.covers]}, {f.oldest, yes[oldest]},
			}
			match := true
			for _, field := range fields {
				match = match && (field[0] == "*" || field[0] == field[1])
			}
			if match {
				matches, used[i] = append(matches, i), true
			}
		}
		require.Len(t, matches, 1, "%s %+v, oldest %v", name, e, oldest)
		r := retention{holdsOldest: oldest}
		require.Equal(t, fates[matches[0]].want, r.fate(e), "%s %+v, oldest %v", name, e, oldest)
	}
	for name, e := range map[string]considered{
		"value": {kind: base.KindSet}, "tombstone": {kind: base.KindDelete}, "dropped": {kind: base.KindDelete, dropped: true},
	} {
		for _, at := range []considered{{seq: 0}, {seq: 7}, {seq: 7, stratum: 1}, {seq: base.MaxSeq, stratum: 2}} {
			for _, covers := range []bool{false, true} {
				e.seq, e.stratum, e.covers = at.seq, at.stratum, covers
				check(name, e, false)
				check(name, e, true)
			}
		}
	}
	require.NotContains(t, used, false, "a row that nothing matches")
}

// Stratum i has the entries that a reader at visible[i] sees and one at visible[i-1] does not.
func TestStrataEndWhereReadersRead(t *testing.T) {
	for _, visible := range [][]uint64{{0}, {9}, {0, 9}, {3, 4, 9}, {1, 5, 6, 7, 100}} {
		r := retention{visible: visible}
		for seq := range visible[len(visible)-1] + 3 {
			stratum := r.stratum(seq)
			for i, at := range visible {
				require.Equal(t, seq <= at, stratum <= i, "entry %d, a reader at %d of %v", seq, at, visible)
			}
		}
	}
}

// verdicts says what happens to the newest value of a key. A snapshot sees it or not; it expires never, later, or has
// expired for a reader of now only, or for the oldest snapshot too.
var verdicts = []struct {
	seen, expires, asks string
	want                verdict
}{
	{"seen", "never", "*", valueStays},
	{"seen", "later", "*", valueStays},
	{"seen", "by now", "*", valueStays},
	{"seen", "by hidden", "*", valueExpired},
	{"unseen", "never", "no", valueStays},
	{"unseen", "never", "asks", valueAsked},
	{"unseen", "later", "no", valueStays},
	{"unseen", "later", "asks", valueAsked},
	{"unseen", "by now", "*", valueExpired},
	{"unseen", "by hidden", "*", valueExpired},
}

func TestEveryValueIsJudged(t *testing.T) {
	seqs := map[string]uint64{"seen": 9, "unseen": 10}
	times := map[string]uint64{"never": expiry.Never, "later": 301, "by now": 300, "by hidden": 200}
	checked := 0
	for _, v := range verdicts {
		for _, asks := range []string{"no", "asks"} {
			if v.asks != "*" && v.asks != asks {
				continue
			}
			checked++
			r := retention{unseen: 10, now: 300, hidden: 200, asks: asks == "asks"}
			require.Equal(t, v.want, r.judge(seqs[v.seen], times[v.expires]), "%s, %s, %s", v.seen, v.expires, asks)
		}
	}
	require.Equal(t, len(seqs)*len(times)*2, checked, "combinations")
}

// Tombstones are never considered. Of the values, those that a snapshot sees are if something has expired for it.
func TestValuesAreConsideredIfTheyMayBeDropped(t *testing.T) {
	for _, c := range []struct {
		r            retention
		seen, unseen bool
	}{
		{retention{unseen: neverUnseen}, false, false},
		{retention{unseen: 10, asks: true}, false, true},
		{retention{unseen: 10, now: 300, hidden: 200}, true, true},
		{retention{unseen: 0, asks: true}, true, true},
	} {
		t.Run(fmt.Sprintf("%+v", c.r), func(t *testing.T) {
			require.Equal(t, c.seen, c.r.considers(base.KindSet, 9))
			require.Equal(t, c.unseen, c.r.considers(base.KindSet, 10))
			require.Equal(t, c.unseen, c.r.considers(base.KindSet, base.MaxSeq))
			require.False(t, c.r.considers(base.KindDelete, 9))
			require.False(t, c.r.considers(base.KindDelete, 10))
		})
	}
}
