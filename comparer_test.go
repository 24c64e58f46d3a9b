package sievedb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb"
)

func TestShortenedKeysKeepTheOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	random := func() []byte {
		key := make([]byte, rnd.IntN(5))
		for i := range key {
			key[i] = []byte{0, 1, 'a', 'b', 0xfe, 0xff}[rnd.IntN(6)]
		}
		return key
	}
	c := sievedb.Bytewise
	require.True(t, c.IsBytewise())
	require.False(t, (&sievedb.Comparer{Name: c.Name, Compare: c.Compare}).IsBytewise(), "the name does not decide")
	for range 10_000 {
		a, b := random(), random()
		successor := c.Successor([]byte("x"), a)[1:]
		require.GreaterOrEqual(t, c.Compare(successor, a), 0, "%q", a)
		require.LessOrEqual(t, len(successor), len(a))
		if c.Compare(a, b) >= 0 {
			continue
		}
		separator := c.Separator([]byte("x"), a, b)[1:]
		require.LessOrEqual(t, c.Compare(a, separator), 0, "%q %q", a, b)
		require.Negative(t, c.Compare(separator, b), "%q %q", a, b)
		require.LessOrEqual(t, len(separator), len(a))
	}
	for _, x := range []struct{ a, b, separator, successor string }{
		{"abcdef", "abzz", "abd", "b"}, {"abc", "abd", "abc", "b"}, {"ab", "abc", "ab", "b"}, {"\xff\xffa", "\xff\xffz", "\xff\xffb", "\xff\xffb"},
		{"\xff", "\xff\xff", "\xff", "\xff"},
	} {
		require.Equal(t, x.separator, string(c.Separator(nil, []byte(x.a), []byte(x.b))))
		require.Equal(t, x.successor, string(c.Successor(nil, []byte(x.a))))
	}
}

func TestErrorsSayWhereAndWhat(t *testing.T) {
	for want, err := range map[string]error{
		"sievedb: corruption in db/000007.ldb: footer at offset 40: the magic number is wrong": &sievedb.CorruptionError{
			File: "db/000007.ldb", Part: "footer", Offset: 40, Detail: "the magic number is wrong",
		},
		"sievedb: corruption: log record: cut off": &sievedb.CorruptionError{Part: "log record", Offset: -1, Detail: "cut off"},
		"sievedb: written by a newer version: db/LOG: log record at offset 0: kind 9; use the version that wrote it, or a later one": &sievedb.NewerError{
			File: "db/LOG", Part: "log record", Found: "kind 9",
		},
		"sievedb: written by a newer version: version edit: tag 77; use the version that wrote it, or a later one": &sievedb.NewerError{
			Part: "version edit", Offset: -1, Found: "tag 77",
		},
		"sievedb: panic during a flush: boom (at main.f, f.go:3)": &sievedb.PanicError{During: "a flush", Value: "boom", Place: "main.f, f.go:3"},
		`sievedb: the comparer "mine" panicked during Get: runtime.Goexit was called (at main.f, f.go:3)`: &sievedb.PanicError{
			During: "Get", Comparer: "mine", Place: "main.f, f.go:3",
		},
	} {
		require.EqualError(t, err, want)
	}
	corrupt, newer := fmt.Errorf("open: %w", &sievedb.CorruptionError{}), fmt.Errorf("open: %w", &sievedb.NewerError{})
	require.True(t, errors.Is(corrupt, sievedb.ErrCorruption) && errors.Is(newer, sievedb.ErrNewer))
	require.False(t, errors.Is(corrupt, sievedb.ErrNewer) || errors.Is(newer, sievedb.ErrCorruption))
}
