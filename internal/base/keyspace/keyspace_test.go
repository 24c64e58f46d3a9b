package keyspace

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var names = []string{"", "a", "ab", "a\x00", "a\x00\x01", "a\x00\x01b", "a\x00\xff", "a\x01", "\x00", "\x00\x00", "\xff", "users", "users2"}

func TestPrefixesNeverCollide(t *testing.T) {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	var last []byte
	for _, name := range sorted {
		prefix := AppendPrefix(nil, name)
		require.Less(t, string(last), string(prefix), "they are in the order of the names")
		last = prefix
		for _, other := range names {
			if other != name {
				require.False(t, bytes.HasPrefix(AppendPrefix(nil, other), prefix), "%q, %q", name, other)
			}
		}
		got, n, ok := Name(append(bytes.Clone(prefix), "\x00\x01key"...))
		require.True(t, ok)
		require.Equal(t, name, got)
		require.Equal(t, len(prefix), n)
		require.Less(t, string(append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, 9)...)), string(After(prefix)))
	}
}

// The documented bytes.
func TestPrefixBytes(t *testing.T) {
	require.Equal(t, "\x00users\x00\x01", string(AppendPrefix(nil, "users")))
	require.Equal(t, "\x00a\x00\xffb\x00\x01", string(AppendPrefix(nil, "a\x00b")))
}

func TestKeysWithoutANamespace(t *testing.T) {
	for _, key := range []string{"", "a", "\x00", "\x00a", "\x00a\x00", "\x00a\x00\x02", "\x01a\x00\x01"} {
		_, _, ok := Name([]byte(key))
		require.False(t, ok, "%q", key)
	}
	require.Error(t, CheckName(""))
	require.Error(t, CheckName(strings.Repeat("n", MaxName+1)))
	require.NoError(t, CheckName(strings.Repeat("n", MaxName)))
}

func FuzzName(f *testing.F) {
	for _, name := range names {
		f.Add(AppendPrefix(nil, name))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		name, n, ok := Name(key)
		if !ok {
			return
		}
		require.Equal(t, key[:n], AppendPrefix(nil, name), "a prefix has one form")
	})
}

// keys is a Reader of sorted keys.
type keys struct {
	all   []string
	at    int
	seeks int
}

func (k *keys) SeekGE(key []byte) bool {
	k.seeks++
	k.at, _ = slices.BinarySearch(k.all, string(key))
	return k.at < len(k.all)
}
func (k *keys) Key() []byte { return []byte(k.all[k.at]) }
func (k *keys) Err() error  { return nil }

func TestNamesSeeksOncePerNamespace(t *testing.T) {
	r := &keys{all: []string{"", "\x00", "\x00broken", "\x01", "plain"}}
	for _, name := range names[1:] {
		for _, key := range []string{"1", "2", "3", "\xff\xff"} {
			r.all = append(r.all, string(AppendPrefix(nil, name))+key)
			r.all = append(r.all, string(AppendPrefix(AppendPrefix(nil, name), "inner"))+key)
		}
	}
	slices.Sort(r.all)
	var got []string
	list := func(name string) bool { got = append(got, name); return true }
	require.NoError(t, Names(r, nil, list))
	want := slices.Clone(names[1:])
	slices.Sort(want)
	require.Equal(t, want, got)
	require.Equal(t, len(want)+3, r.seeks, "one for each, one for the end, one for each strange key")
	got = nil
	require.NoError(t, Names(r, AppendPrefix(nil, "users"), list))
	require.Equal(t, []string{"inner"}, got)
	got = nil
	require.NoError(t, Names(r, nil, func(name string) bool { got = append(got, name); return false }))
	require.Len(t, got, 1)
}

func TestBoundsInANamespaceHaveItsPrefix(t *testing.T) {
	prefix := AppendPrefix(nil, "a")
	for _, c := range []struct{ prefix, lower, upper, start, limit []byte }{
		{nil, nil, nil, nil, nil},
		{nil, []byte("b"), []byte("c"), []byte("b"), []byte("c")},
		{nil, []byte{}, nil, []byte{}, nil},
		{prefix, nil, nil, prefix, After(prefix)},
		{prefix, []byte("b"), nil, inNamespace(prefix, "b"), After(prefix)},
		{prefix, nil, []byte("c"), prefix, inNamespace(prefix, "c")},
	} {
		_, start, limit := CopyBounds(nil, c.prefix, c.lower, c.upper)
		require.Equal(t, c.start, start)
		require.Equal(t, c.limit, limit)
		require.Equal(t, c.lower == nil && c.prefix == nil, start == nil)
	}
	require.Equal(t, [][]byte{[]byte("x"), prefix}, Prefixes([][]byte{[]byte("x")}, []string{"a"}))
}

// inNamespace returns a key of a namespace.
func inNamespace(prefix []byte, key string) []byte {
	return append(prefix[:len(prefix):len(prefix)], key...)
}
