package scan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// formKeys is how many different keys the stores of TestIteratorFormsAgreeWithASortedSlice have.
const formKeys = 200

func formKey(n int) string { return fmt.Sprintf("key%04d", n) }

// formModel is an iterator over the keys of a map, with bounds that change.
type formModel struct {
	values map[string]string // what the iterator shows, whatever its bounds
	keys   []string          // those within the bounds, sorted
	at     int               // -1 is before the first, len(keys) after the last

	lower, upper []byte
	keysOnly     bool
}

func newFormModel(values map[string]string, o *db.IterOptions) *formModel {
	m := &formModel{values: values, keysOnly: o.KeysOnly}
	m.setBounds(o.LowerBound, o.UpperBound)
	return m
}

func (m *formModel) setBounds(lower, upper []byte) {
	m.lower, m.upper = slices.Clone(lower), slices.Clone(upper)
	all := slices.Sorted(maps.Keys(m.values))
	low, high := 0, len(all)
	if lower != nil {
		low = sort.SearchStrings(all, string(lower))
	}
	if upper != nil {
		high = sort.SearchStrings(all, string(upper))
	}
	m.keys, m.at = all[min(low, high):high], -1
}

func (m *formModel) position() position {
	return (&positionModel{keys: make([]int, len(m.keys)), at: m.at}).position()
}

// form is an iterator with its model.
type form struct {
	it *db.Iterator
	m  *formModel
}

func (f *form) require(t *testing.T, ok bool, what string) {
	t.Helper()
	require.Equal(t, f.m.at >= 0 && f.m.at < len(f.m.keys), ok, what)
	require.Equal(t, ok, f.it.Valid(), what)
	require.NoError(t, f.it.Err(), what)
	if ok {
		key := f.m.keys[f.m.at]
		require.Equal(t, key, string(f.it.Key()), what)
		f.requireValue(t, f.it.Key(), f.it.Value())
	}
}

func (f *form) requireValue(t *testing.T, key, value []byte) {
	t.Helper()
	if f.m.keysOnly {
		require.Nil(t, value)
		return
	}
	require.Equal(t, f.m.values[string(key)], string(value))
}

// randomBounds are narrow or wide, one-sided or missing, empty, or in the wrong order.
func randomBounds(rnd *rand.Rand) *db.IterOptions {
	o := &db.IterOptions{KeysOnly: rnd.IntN(2) == 0, NoFillCache: rnd.IntN(2) == 0}
	low := rnd.IntN(formKeys)
	high := low + rnd.IntN([]int{3, 30, formKeys}[rnd.IntN(3)])
	if rnd.IntN(10) == 0 {
		low, high = high, low
	}
	if rnd.IntN(3) > 0 {
		o.LowerBound = []byte(formKey(low))
	}
	if rnd.IntN(3) > 0 {
		o.UpperBound = []byte(formKey(high))
	}
	if rnd.IntN(8) == 0 { // a filter of prefixes applies
		prefix := db.PrefixBounds([]byte(formKey(low)[:6]))
		o.LowerBound, o.UpperBound = prefix.LowerBound, prefix.UpperBound
	}
	return o
}

// formSteps are all calls that change an iterator; the movements return whether it is at a key.
var formSteps = map[string]func(f *form, rnd *rand.Rand, target string) bool{
	"First": func(f *form, _ *rand.Rand, _ string) bool { f.m.at = 0; return f.it.First() },
	"Last":  func(f *form, _ *rand.Rand, _ string) bool { f.m.at = len(f.m.keys) - 1; return f.it.Last() },
	"Next": func(f *form, _ *rand.Rand, _ string) bool {
		f.m.at = min(f.m.at+1, len(f.m.keys))
		return f.it.Next()
	},
	"Prev": func(f *form, _ *rand.Rand, _ string) bool { f.m.at = max(f.m.at-1, -1); return f.it.Prev() },
	"SeekGE": func(f *form, _ *rand.Rand, target string) bool {
		f.m.at = sort.SearchStrings(f.m.keys, target)
		return f.it.SeekGE([]byte(target))
	},
	"SeekLT": func(f *form, _ *rand.Rand, target string) bool {
		f.m.at = sort.SearchStrings(f.m.keys, target) - 1
		return f.it.SeekLT([]byte(target))
	},
	"SetBounds": func(f *form, rnd *rand.Rand, _ string) bool {
		o := randomBounds(rnd)
		f.m.setBounds(o.LowerBound, o.UpperBound)
		f.it.SetBounds(o.LowerBound, o.UpperBound)
		clear(o.LowerBound) // they were copied
		clear(o.UpperBound)
		return false
	},
	"SetBounds to its own key": func(f *form, rnd *rand.Rand, _ string) bool {
		lower, upper := f.it.Key(), f.m.upper
		if rnd.IntN(2) == 0 {
			lower, upper = f.m.lower, f.it.Key()
		}
		f.m.setBounds(lower, upper)
		f.it.SetBounds(lower, upper)
		return false
	},
}

// Iterators, and clones of them, of a database, a snapshot, a transaction with writes of its own and a
// namespace show one moment within their bounds, whatever calls follow each other at whatever
// position, whatever is written and compacted meanwhile.
func TestIteratorFormsAgreeWithASortedSlice(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	visits := map[string]int{}
	for _, of := range []string{"DB", "snapshot", "transaction", "ended transaction", "read-only transaction", "namespace", "namespace in a transaction"} {
		t.Run(of, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 5))
			s := newFormStore(t, rnd, of == "namespace" || of == "namespace in a transaction")
			for range 40 {
				s.write(t, 80)
				s.walk(t, of, visits)
			}
		})
	}
	for step := range formSteps {
		for _, from := range []position{beforeFirst, atFirst, between, atLast, afterLast} {
			require.NotZero(t, visits[string(from)+" "+step], "%s: %s", from, step)
		}
	}
	for _, what := range []string{"Clone", "Clone with options", "All", "All, left", "Backward", "Backward, left"} {
		require.NotZero(t, visits[what], what)
	}
}

// formStore is a database whose keys are plain, or in a namespace with others before and after it.
type formStore struct {
	d       *db.DB
	ns      *db.Namespace // nil: plain
	rnd     *rand.Rand
	outside map[string]string
}

func newFormStore(t *testing.T, rnd *rand.Rand, named bool) *formStore {
	o := storetest.Options(vfs.NewMem())
	o.Filters.RangePolicies = []rangefilter.Policy{rangefilter.NewPrefix(rangefilter.FixedPrefix(6), 10)}
	s := &formStore{d: storetest.Open(t, o), rnd: rnd, outside: map[string]string{}}
	if !named {
		return s
	}
	for _, name := range []string{"before", "forms", "gone"} {
		s.ns = result.Of(s.d.Namespace(name))(t)
		for n := range formKeys {
			require.NoError(t, s.ns.Put([]byte(formKey(n)), []byte("of another namespace"), db.NoSync))
		}
	}
	require.NoError(t, s.ns.Drop(t.Context()))
	s.ns = result.Of(s.d.Namespace("forms"))(t)
	for n := range formKeys {
		require.NoError(t, s.ns.Delete([]byte(formKey(n)), db.NoSync))
	}
	return s
}

// formWriter is a DB or a transaction.
type formWriter interface {
	put(key, value []byte) error
	del(key []byte) error
}

type formDB struct{ d *db.DB }

func (w formDB) put(key, value []byte) error { return w.d.Put(key, value, db.NoSync) }
func (w formDB) del(key []byte) error        { return w.d.Delete(key, db.NoSync) }

type formTx struct{ t *db.Transaction }

func (w formTx) put(key, value []byte) error { return w.t.Put(key, value) }
func (w formTx) del(key []byte) error        { return w.t.Delete(key) }

// write writes n random entries, flushes or compacts now and then, and changes values.
func (s *formStore) write(t *testing.T, n int) {
	s.writeTo(t, formDB{s.d}, s.outside, n)
	switch s.rnd.IntN(4) {
	case 0:
		require.NoError(t, s.d.Flush())
	case 1:
		storetest.Settle(t, s.d)
	}
}

func (s *formStore) writeTo(t *testing.T, w formWriter, values map[string]string, n int) {
	for range n {
		key := formKey(s.rnd.IntN(formKeys))
		value := fmt.Sprint(key, " is ", s.rnd.Uint64())
		if s.rnd.IntN(20) == 0 {
			value += string(make([]byte, 2000)) // larger than a block
		}
		if s.rnd.IntN(4) == 0 {
			require.NoError(t, w.del(s.ns.Key([]byte(key))))
			delete(values, key)
		} else {
			require.NoError(t, w.put(s.ns.Key([]byte(key)), []byte(value)))
			values[key] = value
		}
	}
}

// reader returns what an iterator is made from, and what it shows of the keys. end ends it.
func (s *formStore) reader(t *testing.T, of string) (r db.Reader, values map[string]string, end func()) {
	values = maps.Clone(s.outside)
	switch of {
	case "snapshot":
		snapshot := s.d.NewSnapshot()
		s.write(t, 10)
		return snapshot, values, func() { require.NoError(t, snapshot.Close()) }
	case "transaction", "ended transaction", "read-only transaction", "namespace in a transaction":
		tx := s.d.NewTransaction(&db.TransactionOptions{ReadOnly: of == "read-only transaction"})
		if of != "read-only transaction" {
			s.writeTo(t, formTx{tx}, values, 30)
		}
		if of == "namespace in a transaction" {
			return s.ns.In(tx), values, func() { _ = tx.Close() }
		}
		return tx, values, func() { _ = tx.Close() }
	case "namespace":
		return s.ns, values, func() {}
	}
	return s.d, values, func() {}
}

// walk makes an iterator and moves it and its clones.
func (s *formStore) walk(t *testing.T, of string, visits map[string]int) {
	r, values, end := s.reader(t, of)
	o := randomBounds(s.rnd)
	it := storetest.Iter(t, r, o)
	forms := []*form{{it, newFormModel(values, o)}}
	if of == "ended transaction" {
		end()
	} else {
		s.loops(t, r, values, visits)
		defer end()
	}
	names := slices.Sorted(maps.Keys(formSteps))
	for range 150 {
		f := forms[s.rnd.IntN(len(forms))]
		switch op := s.rnd.IntN(30); {
		case op == 0 && len(forms) < 4:
			forms = append(forms, s.clone(t, f, visits))
		case op == 1 && len(forms) > 1:
			require.NoError(t, f.it.Close())
			forms = slices.DeleteFunc(forms, func(x *form) bool { return x == f })
		case op == 2:
			s.write(t, 5)
		default:
			name := names[s.rnd.IntN(len(names))]
			visits[string(f.m.position())+" "+name]++
			target := formKey(s.rnd.IntN(formKeys + 1))
			ok := formSteps[name](f, s.rnd, target)
			f.require(t, ok, name)
		}
	}
	for _, f := range forms {
		require.NoError(t, f.it.Close())
		require.False(t, f.it.Valid())
	}
}

// clone returns a clone, with the same options or others, which begins before its first key.
func (s *formStore) clone(t *testing.T, f *form, visits map[string]int) *form {
	t.Helper()
	var o *db.IterOptions
	m := newFormModel(f.m.values, &db.IterOptions{LowerBound: f.m.lower, UpperBound: f.m.upper, KeysOnly: f.m.keysOnly})
	if s.rnd.IntN(2) == 0 {
		o = randomBounds(s.rnd)
		m = newFormModel(f.m.values, o)
		visits["Clone with options"]++
	} else {
		visits["Clone"]++
	}
	it := result.Of(f.it.Clone(o))(t)
	c := &form{it, m}
	c.require(t, false, "a fresh clone")
	return c
}

// loops walks by All and Backward of r and of an iterator of it.
func (s *formStore) loops(t *testing.T, r db.Reader, values map[string]string, visits map[string]int) {
	t.Helper()
	o := randomBounds(s.rnd)
	f := &form{m: newFormModel(values, o)}
	backward := slices.Clone(f.m.keys)
	slices.Reverse(backward)
	entries, failed := r.All(o)
	reversed, failedBack := r.Backward(o)
	it := storetest.Iter(t, r, o)
	for _, c := range []struct {
		name    string
		entries func(yield func(key, value []byte) bool)
		want    []string
	}{
		{"All", entries, f.m.keys}, {"Backward", reversed, backward},
		{"All", it.All(), f.m.keys}, {"Backward", it.Backward(), backward},
		{"All", entries, f.m.keys}, // again
	} {
		stop, n := s.rnd.IntN(2*len(c.want)+1), 0
		for key, value := range c.entries {
			require.Equal(t, c.want[n], string(key), c.name)
			f.requireValue(t, key, value)
			if n++; n == stop {
				break
			}
		}
		if n == len(c.want) {
			visits[c.name]++
		} else {
			require.Equal(t, stop, n, c.name)
			visits[c.name+", left"]++
		}
		require.NoError(t, failed())
		require.NoError(t, failedBack())
	}
	require.NoError(t, it.Close())
}
