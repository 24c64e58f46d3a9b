package db

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/internal/base/keyspace"
	"github.com/sievedb/sievedb/vfs"
)

// Namespaces, nested ones and those with strange names included, agree with a map each, by every
// call. The DB's own keys are not disturbed.
func TestNamespacesAgreeWithMaps(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 6))
	d := openTest(t, testOptions(vfs.NewMem()))
	require.NoError(t, d.Put([]byte("plain"), []byte("of the DB"), NoSync))
	var all []*Namespace
	for _, name := range []string{"a", "a\x00", "a\x00\x01", "ab", "\x00", "\xff\xff"} {
		n, err := d.Namespace(name)
		require.NoError(t, err)
		require.Equal(t, name, n.Name())
		all = append(all, n)
	}
	inner, err := all[0].Namespace("inner")
	require.NoError(t, err)
	all = append(all, inner)
	models := make([]map[string]string, len(all))
	for i := range models {
		models[i] = map[string]string{}
	}
	key := func() string { return fmt.Sprintf("\x01k%02d", rnd.IntN(60)) }
	for step := range 1500 {
		i := rnd.IntN(len(all))
		n, model := all[i], models[i]
		switch k, v := key(), fmt.Sprint(step); rnd.IntN(12) {
		case 0:
			require.NoError(t, n.Delete([]byte(k), NoSync))
			delete(model, k)
		case 1:
			limit := key()
			if k > limit {
				k, limit = limit, k
			}
			require.NoError(t, n.DeleteRange(t.Context(), []byte(k), []byte(limit), NoSync))
			maps.DeleteFunc(model, func(key, _ string) bool { return key >= k && key < limit })
		case 2:
			requireNamespace(t, rnd, n, model, i == 0)
		case 3:
			require.NoError(t, d.Update(func(tx *Transaction) error {
				value, err := n.In(tx).Get([]byte(k))
				require.Equal(t, model[k], string(value))
				require.Equal(t, cmp.Compare(len(model[k]), 0) == 0, err == ErrNotFound)
				return tx.Put(n.Key([]byte(k)), []byte(v))
			}))
			model[k] = v
		case 4:
			if rnd.IntN(10) == 0 && i != 0 { // the first has an inner one
				require.NoError(t, n.Drop(t.Context()))
				clear(model)
			}
		case 5:
			if rnd.IntN(20) == 0 {
				require.NoError(t, d.Flush())
			}
		case 6:
			require.NoError(t, n.Modify([]byte(k), func(old []byte) ([]byte, error) {
				require.Equal(t, model[k], string(old))
				return []byte(v), nil
			}, NoSync))
			model[k] = v
		case 7:
			swapped, err := n.CompareAndSwap([]byte(k), []byte(model[k]), []byte(v), NoSync)
			require.NoError(t, err)
			if has := model[k] != ""; swapped {
				model[k] = v
			} else {
				require.False(t, has)
			}
		default:
			require.NoError(t, n.Put([]byte(k), []byte(v), NoSync))
			model[k] = v
		}
	}
	requireValue(t, d, []byte("plain"), []byte("of the DB"))
	requireNames(t, d, all, models)
}

// requireNames compares the lists of names with the models.
func requireNames(t *testing.T, d *DB, all []*Namespace, models []map[string]string) {
	t.Helper()
	var want []string
	for i, n := range all[:len(all)-1] {
		if len(models[i]) > 0 || i == 0 && len(models[len(all)-1]) > 0 {
			want = append(want, n.Name())
		}
	}
	slices.Sort(want)
	got, err := d.Namespaces()
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = all[0].Namespaces()
	require.NoError(t, err)
	require.Equal(t, len(models[len(all)-1]) > 0, slices.Equal([]string{"inner"}, got))
	require.NoError(t, all[0].Drop(t.Context()))
	got, err = all[len(all)-1].d.Namespaces()
	require.NoError(t, err)
	require.NotContains(t, got, all[0].Name(), "an inner namespace goes with the outer one")
}

// requireNamespace compares what a namespace shows with a map. Iterators of a namespace with an inner
// one show its keys too, so they are not compared.
func requireNamespace(t *testing.T, rnd *rand.Rand, n *Namespace, model map[string]string, outer bool) {
	t.Helper()
	s := n.d.NewSnapshot()
	defer s.Close()
	for _, r := range []Reader{n, n.In(s)} {
		var asked [][]byte
		for range 5 {
			k := fmt.Sprintf("\x01k%02d", rnd.IntN(60))
			asked = append(asked, []byte(k))
			want, has := model[k]
			value, err := r.Get([]byte(k))
			require.Equal(t, has, err == nil)
			require.Equal(t, want, string(value))
			value, _ = r.GetTo([]byte("+"), []byte(k))
			require.Equal(t, "+"+want, string(value))
			got, err := r.Has([]byte(k))
			require.NoError(t, err)
			require.Equal(t, has, got)
		}
		values, err := r.MultiGet(asked)
		require.NoError(t, err)
		for i := range values {
			require.Equal(t, model[string(asked[i])], string(values[i]))
		}
		if outer {
			continue
		}
		it, err := r.NewIterator(nil)
		require.NoError(t, err)
		requireWalks(t, it, model)
		keys := slices.Sorted(maps.Keys(model))
		for range 5 {
			requireStepFrom(t, rnd, it, keys)
		}
		require.NoError(t, it.Close())
	}
}

// requireStepFrom seeks both ways and compares the keys.
func requireStepFrom(t *testing.T, rnd *rand.Rand, it *Iterator, keys []string) {
	t.Helper()
	target := fmt.Sprintf("\x01k%02d", rnd.IntN(60))
	at, _ := slices.BinarySearch(keys, target)
	ok := it.SeekGE([]byte(target))
	require.Equal(t, at < len(keys), ok)
	if ok {
		require.Equal(t, keys[at], string(it.Key()))
	}
	ok = it.SeekLT([]byte(target))
	require.Equal(t, at > 0, ok)
	if ok {
		require.Equal(t, keys[at-1], string(it.Key()))
		require.Equal(t, at < len(keys), it.Next())
	}
}

func TestMisusedNamespaces(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Comparer = &sievedb.Comparer{Name: "backward", Compare: func(a, b []byte) int { return -slices.Compare(a, b) }}
	other := openTest(t, o)
	_, err := other.Namespace("a")
	require.ErrorContains(t, err, `"backward"`)

	d := mustOpen(t, testOptions(vfs.NewMem()))
	_, err = d.Namespace("")
	require.ErrorContains(t, err, "the name is empty")
	open, err := d.Namespace("a")
	require.NoError(t, err)
	require.NoError(t, open.Put(nil, []byte("the empty key"), nil))
	value, err := open.Get(nil)
	require.NoError(t, err)
	require.Equal(t, "the empty key", string(value))
	require.NoError(t, d.Close())
	var none *Namespace
	for name, n := range map[string]*Namespace{"nil": none, "zero": {}, "of a closed DB": open} {
		for method, err := range errorsOfReader(n) {
			require.Equal(t, ErrClosed, err, "%s: %s", name, method)
		}
		require.Equal(t, ErrClosed, n.Put(nil, nil, nil), name)
		require.Equal(t, ErrClosed, n.Delete(nil, nil), name)
		_, err := n.CompareAndSwapTTL(nil, nil, nil, time.Hour, nil)
		require.Equal(t, ErrClosed, err, name)
		require.Equal(t, ErrClosed, n.Drop(t.Context()), name)
		_, err = n.Namespace("b")
		require.Equal(t, ErrClosed, err, name)
		_, err = n.Namespaces()
		require.Equal(t, ErrClosed, err, name)
		_ = n.Name()
	}
}

// Two namespaces change together, and a conflict in one of them is found.
func TestATransactionSpansNamespaces(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	a, err := d.Namespace("a")
	require.NoError(t, err)
	b, err := d.Namespace("b")
	require.NoError(t, err)
	tx := d.NewTransaction(nil)
	it, err := a.In(tx).NewIterator(nil)
	require.NoError(t, err)
	require.False(t, it.First())
	require.NoError(t, it.Close())
	require.NoError(t, tx.Put(b.Key([]byte("k")), nil))
	require.NoError(t, b.Put([]byte("z"), nil, NoSync))
	require.NoError(t, tx.Commit(), "a walk in one namespace does not read the next one")

	tx = d.NewTransaction(nil)
	it, err = a.In(tx).NewIterator(nil)
	require.NoError(t, err)
	require.False(t, it.First())
	require.NoError(t, it.Close())
	require.NoError(t, tx.Put(b.Key([]byte("k")), nil))
	require.NoError(t, a.Put([]byte("phantom"), nil, NoSync))
	require.Equal(t, ErrConflict, tx.Commit())
}

// Keys without a namespace may look as if they had one whose name no namespace can have.
func TestNamespacesListsOnlyNamesThatCanBeUsed(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	putAll(t, d, "\x00\x00\x01x", "the empty name", "\x00"+strings.Repeat("n", keyspace.MaxName+1)+"\x00\x01x", "too long")
	n, err := d.Namespace("n")
	require.NoError(t, err)
	require.NoError(t, n.Put([]byte("x"), nil, nil))
	names, err := d.Namespaces()
	require.NoError(t, err)
	require.Equal(t, []string{"n"}, names)

	o := testOptions(vfs.NewMem())
	o.Comparer = &Comparer{Name: "other", Compare: BytewiseComparer.Compare}
	_, err = openTest(t, o).Namespaces()
	require.ErrorContains(t, err, "namespaces go by the order of bytes")
}

// The bug: the bounds of a zero Namespace were those of the whole database.
func TestBoundsOfNoNamespaceContainNothing(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	putAll(t, d, "", "1", "a", "1")
	for _, n := range []*Namespace{nil, {}} {
		for _, o := range []*IterOptions{n.Bounds(nil, nil), n.Bounds([]byte("a"), nil), n.Bounds(nil, []byte("z"))} {
			require.NoError(t, d.DeleteRange(t.Context(), o.LowerBound, o.UpperBound, nil))
			requireContent(t, d, "", "1", "a", "1")
		}
	}
}
