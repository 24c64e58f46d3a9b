package bulk

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/internal/work/changes"
	"github.com/sievedb/sievedb/internal/write/txn"
)

// loaded returns a store with keys 0 to 2999 in many tables.
func loaded(t *testing.T) *store {
	s, l := newLoad(t)
	for n := range 3_000 {
		require.NoError(t, l.Put(tabletest.Key(n), []byte("loaded")))
	}
	require.NoError(t, result.Err(l.Commit()))
	require.Greater(t, len(s.files(".ldb")), 20)
	s.calls = nil
	return s
}

// span returns the range from one key to another one, limit excluded.
func span(from, limit int) Spans {
	return NewSpans(base.Bytewise, []Span{{Start: tabletest.Key(from), Limit: tabletest.Key(limit)}})
}

// atTable calls f before the nth table with a temporary name is created, counted from 1.
func (s *store) atTable(nth int, f func()) {
	s.fault = func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpCreate && strings.HasSuffix(op.Name, ".dbtmp") {
			if nth--; nth == 0 {
				f()
			}
		}
		return nil
	}
}

func (s *store) requireDeleted(from, limit int) {
	s.t.Helper()
	for n := range 3_000 {
		want := "loaded"
		if from <= n && n < limit {
			want = ""
		}
		s.requireValue(n, nil, want)
	}
}

func TestADeletionRemovesTheTablesOfTheRangeAndWritesTombstonesForOtherKeys(t *testing.T) {
	s := loaded(t)
	tables := len(s.files(".ldb"))
	own := []Entry{{Kind: base.KindSet, Key: tabletest.Key(500), Value: []byte("own")}}
	info := result.Of(s.DeleteTables(t.Context(), span(10, 2_990), own))(t)
	require.Equal(t, []string{
		"flush", "ignore level 0", "lead", "flush the rest", "hold", "place", "apply", "advance true", "release", "respect level 0",
	}, s.calls)
	require.Equal(t, tables-2, info.TablesDropped, "those at the ends have other keys")
	require.Zero(t, info.TablesCovered)
	require.Positive(t, info.BytesDropped)
	require.Less(t, info.Tombstones, uint64(400))
	s.requireValue(500, nil, "own")
	s.requireValue(501, nil, "")
	s.requireValue(9, nil, "loaded")
	require.Len(t, s.untracedSince(0).Gone, 1)
	require.Empty(t, s.files(".dbtmp"))
}

// Time stands still in a bubble while somebody runs, so a wait would be seen.
func TestADeletionDoesNotWaitForASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := loaded(t)
		tables := len(s.files(".ldb"))
		at := s.snapshots.Open(&s.finder.Current, nil)
		start := time.Now()
		info := result.Of(s.DeleteTables(t.Context(), span(10, 2_990), nil))(t)
		require.Zero(t, time.Since(start), "nobody waits")
		require.EqualValues(t, 2_980, info.Tombstones)
		require.Equal(t, tables-2, info.TablesCovered)
		require.Zero(t, info.TablesDropped)
		s.requireDeleted(10, 2_990)
		s.requireValue(1_500, &at, "loaded")

		require.True(t, s.Waiting())
		s.snapshots.Close(&at)
		s.Wake()
		s.background.Wait()
		require.False(t, s.Waiting())
		require.Less(t, len(s.files(".ldb")), tables)
		s.requireDeleted(10, 2_990)
	})
}

// tombstoneTables returns how many tables of tombstones a deletion writes while a snapshot is open.
func tombstoneTables(t *testing.T) (created int) {
	s := loaded(t)
	at := s.snapshots.Open(&s.finder.Current, nil)
	defer s.snapshots.Close(&at)
	s.fault = func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpCreate {
			created++
		}
		return nil
	}
	require.NoError(t, result.Err(s.DeleteTables(t.Context(), span(10, 2_990), nil)))
	return created
}

// The job begins again as soon as it looks, at the end at the latest.
func TestADeletionRemovesTablesAfterAllWhenTheLastSnapshotIsClosed(t *testing.T) {
	last := tombstoneTables(t)
	require.Greater(t, last, 5)
	for _, table := range []int{1, 5, last} {
		s := loaded(t)
		first, second := s.snapshots.Open(&s.finder.Current, nil), s.snapshots.Open(&s.finder.Current, nil)
		s.atTable(table, func() {
			s.snapshots.Close(&first)
			s.snapshots.Close(&second)
		})
		created, hook := 0, s.fault
		s.fault = func(op wrap.Op) *wrap.Fault {
			if op.Kind == wrap.OpCreate {
				created++
			}
			return hook(op)
		}
		info := result.Of(s.DeleteTables(t.Context(), span(10, 2_990), nil))(t)
		require.Equal(t, table < last, created < last, "of %d tables of tombstones %d were created; closed at table %d", last, created, table)
		require.Positive(t, info.TablesDropped)
		require.Zero(t, info.TablesCovered)
		require.Less(t, info.Tombstones, uint64(400), "of the second attempt")
		s.requireDeleted(10, 2_990)
		require.Empty(t, s.files(".dbtmp"), "of the first attempt")
		require.Equal(t, 1, strings.Count(strings.Join(s.calls, ","), "lead"), "writers wait once")
	}
}

// A snapshot that begins while a range is deleted pins what it reads, so nothing waits for it.
func TestASnapshotFromDuringADeletionKeepsItsView(t *testing.T) {
	s := loaded(t)
	s.atTable(1, func() {
		at := s.snapshots.Open(&s.finder.Current, nil)
		require.NotNil(t, at.State)
		s.t.Cleanup(func() {
			s.requireValue(1_500, &at, "loaded")
			s.snapshots.Close(&at)
		})
	})
	info := result.Of(s.DeleteTables(t.Context(), span(10, 2_990), nil))(t)
	require.Positive(t, info.TablesDropped)
	s.requireDeleted(10, 2_990)
}

func TestADeletionThatIsOvertakenIsRepeated(t *testing.T) {
	s := loaded(t)
	s.deletionAhead = 16
	s.atTable(1, func() { s.put("meanwhile", numbers(100, 200)...) })
	require.NoError(t, result.Err(s.DeleteTables(t.Context(), span(10, 2_990), nil)))
	s.requireDeleted(10, 2_990)
	require.Equal(t, 2, strings.Count(strings.Join(s.calls, ","), "lead"))
}

func TestADeletionThatIsOvertakenAgainAndAgainFails(t *testing.T) {
	s := loaded(t)
	s.during = func(call string) {
		if call == "lead" {
			s.lastSeq += 2 * base.LoadAhead
			s.finder.VisibleSeq.Store(s.lastSeq)
		}
	}
	_, err := s.DeleteTables(t.Context(), span(10, 2_990), nil)
	require.ErrorContains(t, err, "writes happened during it; delete less at a time")
	s.requireDeleted(0, 0)
	require.Empty(t, s.files(".dbtmp"))
}

// What is written while a range is deleted is deleted with it: the deletion happens at its end.
func TestWritesDuringADeletionOfTablesAreDeleted(t *testing.T) {
	for name, then := range map[string]func(s *store){
		"in the memtable": func(*store) {},
		"in a table":      func(s *store) { require.NoError(s.t, s.flush()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := loaded(t)
			s.atTable(1, func() {
				s.put("meanwhile", 5, 15, 1_500, 2_995)
				then(s)
			})
			require.NoError(t, result.Err(s.DeleteTables(t.Context(), span(10, 2_990), nil)))
			for n, want := range map[int]string{5: "meanwhile", 15: "", 1_500: "", 2_995: "meanwhile"} {
				s.requireValue(n, nil, want)
			}
		})
	}
}

func TestAFailedDeletionDeletesNothing(t *testing.T) {
	for _, fail := range []string{"flush", "lead", "flush the rest", "apply"} {
		t.Run(fail, func(t *testing.T) {
			s := loaded(t)
			tables := len(s.files(".ldb"))
			s.fail = fail
			require.ErrorIs(t, result.Err(s.DeleteTables(t.Context(), span(10, 2_990), nil)), errFailed)
			s.requireDeleted(0, 0)
			s.requireOnlyTables(tables)
			s.fail = ""
			_, err := s.DeleteTables(t.Context(), span(10, 2_990), nil)
			require.NoError(t, err, "nothing is reserved any more")
			s.requireDeleted(10, 2_990)
		})
	}
}

func spanKey(n int) []byte { return fmt.Appendf(nil, "%03d", n) }

func tableOf(smallest, largest int) *version.FileMeta {
	return &version.FileMeta{
		Smallest: base.AppendInternalKey(nil, spanKey(smallest), 9, base.KindSet),
		Largest:  base.AppendInternalKey(nil, spanKey(largest), 3, base.KindSet),
	}
}

// A set of spans agrees with a set of numbers: 0 to 199.
func TestSpansAgreeWithAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 5))
	for range 500 {
		var model [200]bool
		var list []Span
		for range rnd.IntN(6) {
			from, to := rnd.IntN(200), rnd.IntN(200)
			a := Span{spanKey(from), spanKey(to)}
			if rnd.IntN(8) == 0 {
				from, a.Start = 0, nil
			}
			if rnd.IntN(8) == 0 {
				to, a.Limit = 200, nil
			}
			for n := from; n < to; n++ {
				model[n] = true
			}
			list = append(list, a)
		}
		s := NewSpans(base.Bytewise, list)
		for n, want := range model {
			require.Equal(t, want, s.Contains(spanKey(n)), "key %d of %q", n, list)
		}
		for range 30 {
			from := rnd.IntN(200)
			to := min(from+rnd.IntN(30), 199)
			all, meets := true, false
			for n := from; n <= to; n++ {
				all = all && model[n]
			}
			// A span meets a table if they overlap, whether or not a key of the model is between.
			for _, a := range s.All() {
				meets = meets || s.meets(tableOf(from, to), a)
			}
			require.Equal(t, all, s.Encloses(tableOf(from, to)), "table %d to %d, %q", from, to, list)
			require.True(t, meets || !all)
		}
		for i, a := range s.All() {
			if i > 0 {
				require.Less(t, string(s.All()[i-1].Limit), string(a.Start), "they neither overlap nor touch")
			}
		}
	}
}

func TestEmptySpans(t *testing.T) {
	s := NewSpans(base.Bytewise, []Span{{spanKey(5), spanKey(5)}, {spanKey(7), spanKey(6)}})
	require.True(t, s.Empty())
	require.False(t, s.Contains(spanKey(5)))
	require.False(t, NewSpans(base.Bytewise, []Span{{}}).Empty())
	require.True(t, NewSpans(base.Bytewise, []Span{{}}).Contains(nil))
}

func TestReadersOfChangesSeeTheSpansAndTheWritesOfADeletion(t *testing.T) {
	j := &deletion{spans: NewSpans(base.Bytewise, []Span{{spanKey(5), nil}, {nil, spanKey(2)}})}
	want := changes.Event{Ranges: []changes.Range{{Limit: spanKey(2)}, {Start: spanKey(5)}}}
	require.Equal(t, want, j.event())

	var own batch.Batch
	own.Add(base.KindDelete, spanKey(3), nil)
	own.Add(base.KindSet, spanKey(4), []byte("value"))
	want.Own = own.Record(1)
	j.own = []Entry{{Kind: base.KindDelete, Key: spanKey(3)}, {Kind: base.KindSet, Key: spanKey(4), Value: []byte("value")}}
	require.Equal(t, want, j.event())
}

// opsBatch returns a batch of operations that the bytes describe: a byte that says which one, and two strings, each
// after its length in a byte.
func opsBatch(ops []byte) *batch.Batch {
	b := new(batch.Batch)
	next := func() (s []byte) {
		if len(ops) == 0 {
			return nil
		}
		n := min(int(ops[0]%8), len(ops)-1)
		s, ops = ops[1:1+n], ops[1+n:]
		return s
	}
	for len(ops) > 0 {
		op := ops[0] % 4
		ops = ops[1:]
		first, second := next(), next()
		switch op {
		case 0:
			b.Add(base.KindDelete, first, nil)
		case 1, 2:
			b.Add(base.KindSet, first, second)
		case 3:
			b.DeleteRange(first, second)
		}
	}
	return b
}

// Parse and a model, which applies one entry after the other, agree about every key.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01a\x011\x03\x01a\x01c\x01\x01b\x012\x00\x01z\x00\x01\x01b\x013"))
	f.Add([]byte("\x03\x01c\x01a"))
	f.Add([]byte("\x03\x00\x00\x01\x00\x00\x03\x01a\x01a"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		b := opsBatch(ops)
		spans, own, err := Parse(base.Bytewise, b)
		values := map[string]*Entry{} // nil if a range deletes the key
		var ranges []Span
		for _, e := range b.All() {
			if e.Kind != batch.EntryDeleteRange {
				kind := base.KindSet
				if e.Kind == batch.EntryDelete {
					kind = base.KindDelete
				}
				values[string(e.Key)] = &Entry{Kind: kind, Key: e.Key, Value: e.Value}
				continue
			}
			if e.Key != nil && e.Value != nil && bytes.Compare(e.Key, e.Value) > 0 {
				require.Error(t, err, "a range that ends before it begins")
				return
			}
			ranges = append(ranges, Span{Start: e.Key, Limit: e.Value})
			for key := range values {
				if within(ranges[len(ranges)-1], []byte(key)) {
					delete(values, key)
				}
			}
		}
		require.NoError(t, err)
		require.True(t, slices.IsSortedFunc(own, func(a, b Entry) int { return bytes.Compare(a.Key, b.Key) }))
		require.Len(t, own, len(values))
		for _, e := range own {
			want := values[string(e.Key)]
			require.NotNil(t, want)
			require.Equal(t, want.Kind, e.Kind)
			require.Equal(t, string(want.Value), string(e.Value))
		}
		for _, e := range b.All() {
			for _, key := range [][]byte{e.Key, e.Value, append(bytes.Clone(e.Key), 0)} {
				deleted := slices.ContainsFunc(ranges, func(a Span) bool { return within(a, key) })
				require.Equal(t, deleted, spans.Contains(key), "%q in %q", key, ranges)
			}
		}
	})
}

func within(a Span, key []byte) bool {
	return (a.Start == nil || bytes.Compare(key, a.Start) >= 0) && (a.Limit == nil || bytes.Compare(key, a.Limit) < 0)
}

// pointStore has keys, and records the batch that is applied.
type pointStore struct {
	*Coordinator
	keys      []string
	current   lookup.Current
	recent    txn.Recent
	err       error    // of Keys
	meanwhile []func() // before each check
	before    []*batch.Batch
	applied   []string
}

func newPointStore(v *version.Version, keys ...string) *pointStore {
	s := &pointStore{keys: keys}
	s.current.State.Store(&lookup.State{Version: v})
	s.current.VisibleSeq.Store(10)
	s.Coordinator = New(Options{Current: &s.current, Snapshots: new(lookup.Snapshots), Recent: &s.recent, Keys: s.visit})
	return s
}

func (s *pointStore) visit(a Span, visit func(key []byte) bool) error {
	for _, key := range s.keys {
		if (a.Start == nil || key >= string(a.Start)) && (a.Limit == nil || key < string(a.Limit)) && !visit([]byte(key)) {
			break
		}
	}
	return s.err
}

func (s *pointStore) apply(b *batch.Batch, check txn.Check) error {
	if len(s.meanwhile) > 0 {
		s.meanwhile[0]()
		s.meanwhile = s.meanwhile[1:]
	}
	if err := check(s.before); err != nil {
		return err
	}
	s.applied = writes(b)
	return nil
}

func writes(b *batch.Batch) (all []string) {
	for _, e := range b.All() {
		all = append(all, fmt.Sprintf("%d %s%s", e.Kind, e.Key, e.Value))
	}
	return all
}

// commit is a write of another.
func (s *pointStore) commit(key string) {
	s.recent.AddKey(s.current.VisibleSeq.Load(), []byte(key))
	s.current.VisibleSeq.Add(1)
}

func TestTheRangesAndWritesOfABatch(t *testing.T) {
	var b batch.Batch
	b.Add(base.KindSet, []byte("c"), []byte("gone"))
	b.Add(base.KindSet, []byte("x"), []byte("1"))
	b.DeleteRange([]byte("a"), []byte("f"))
	b.Add(base.KindSet, []byte("d"), []byte("2"))
	b.DeleteRange([]byte("e"), []byte("h"))
	b.Add(base.KindDelete, []byte("x"), nil)
	b.Add(base.KindSet, []byte("b"), []byte("3"))
	spans, own, err := Parse(base.Bytewise, &b)
	require.NoError(t, err)
	require.Equal(t, []Span{{Start: []byte("a"), Limit: []byte("h")}}, spans.All())
	require.Equal(t, []Entry{
		{base.KindSet, []byte("b"), []byte("3")}, {base.KindSet, []byte("d"), []byte("2")}, {Kind: base.KindDelete, Key: []byte("x")},
	}, own)
	b.DeleteRange([]byte("b"), []byte("a"))
	_, _, err = Parse(base.Bytewise, &b)
	require.ErrorContains(t, err, "start is after limit")
}

func TestKeysAreDeletedOneByOne(t *testing.T) {
	var many []string
	for n := range mostPointDeletes + 1 {
		many = append(many, fmt.Sprintf("k%05d", n))
	}
	long := strings.Repeat("k", mostPointBytes/2+1)
	failure := errors.New("failure")
	for name, test := range map[string]struct {
		prepare func(s *pointStore)
		done    bool
		want    []string
		err     error
	}{
		"no key":         {func(s *pointStore) { s.keys = nil }, true, []string{"1 own"}, nil},
		"some keys":      {func(*pointStore) {}, true, []string{"2 k1", "2 k2", "1 own"}, nil},
		"many keys":      {func(s *pointStore) { s.keys = many[:mostPointDeletes] }, true, nil, nil},
		"too many keys":  {func(s *pointStore) { s.keys = many }, false, nil, nil},
		"too many bytes": {func(s *pointStore) { s.keys = []string{long + "1", long + "2"} }, false, nil, nil},
		"a failed read":  {func(s *pointStore) { s.err = failure }, true, nil, failure},
		"writes meanwhile": {func(s *pointStore) {
			s.meanwhile = []func(){func() { s.commit("k3"); s.commit("other") }}
			s.before = []*batch.Batch{batchOf("k4", "other"), {}}
		}, true, []string{"2 k1", "2 k2", "2 k3", "2 k4", "1 own"}, nil},
		"a load meanwhile": {func(s *pointStore) {
			s.meanwhile = []func(){func() { s.recent.Forget(s.current.VisibleSeq.Add(1)); s.keys = []string{"k9"} }}
		}, true, []string{"2 k9", "1 own"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPointStore(&version.Version{Cmp: base.Bytewise}, "j", "k1", "k2", "l")
			s.recent.Begin()
			defer s.recent.End()
			s.commit("before")
			test.prepare(s)
			spans := NewSpans(base.Bytewise, []Span{{Start: []byte("k"), Limit: []byte("l")}})
			own := []Entry{{base.KindSet, []byte("own"), nil}}
			done, err := s.DeletePoints(t.Context(), spans, own, s.apply)
			require.Equal(t, test.done, done)
			require.Equal(t, test.err, err)
			if name == "many keys" {
				require.Len(t, s.applied, mostPointDeletes+1)
				return
			}
			require.Equal(t, test.want, s.applied)
		})
	}
}

func batchOf(keys ...string) *batch.Batch {
	b := new(batch.Batch)
	for _, key := range keys {
		b.Add(base.KindSet, []byte(key), nil)
	}
	return b
}

// A context that has ended, and a table within the range, end the deletion before it applies a batch.
func TestPointsAreNotDeleted(t *testing.T) {
	s := newPointStore(&version.Version{Cmp: base.Bytewise}, "k1")
	spans := NewSpans(base.Bytewise, []Span{{Start: []byte("k"), Limit: []byte("l")}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done, err := s.DeletePoints(ctx, spans, nil, s.apply)
	require.True(t, done)
	require.Equal(t, context.Canceled, err)
	tables := tabletest.New(t, filter.NewBloomPolicy(10))
	tables.Add(1, 1, "value", 1, 2)
	s.current.State.Store(&lookup.State{Version: tables.Version()})
	done, err = s.DeletePoints(t.Context(), spans, nil, s.apply)
	require.False(t, done)
	require.NoError(t, err)
	require.Nil(t, s.applied)
}
