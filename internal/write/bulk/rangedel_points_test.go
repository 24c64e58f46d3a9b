package bulk

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/internal/write/txn"
)

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

func newPointStore(v *manifest.Version, keys ...string) *pointStore {
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
			s := newPointStore(&manifest.Version{Cmp: base.Bytewise}, "j", "k1", "k2", "l")
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
	s := newPointStore(&manifest.Version{Cmp: base.Bytewise}, "k1")
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
