package logstore

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// The bytes of an entry, one field each.
func TestAnEntryHasTheBytesOfTheFormat(t *testing.T) {
	l := raft.Log{
		Index: 7, Term: 5, Type: raft.LogConfiguration, Data: []byte("data"), Extensions: []byte{9},
		AppendedAt: time.Unix(1, 2).UTC(),
	}
	want := strings.Join([]string{
		"01",               // version
		"05",               // type: configuration
		"07",               // flags: time, extensions, data
		"0000000000000005", // term
		"0000000000000001", // seconds
		"00000002",         // nanoseconds
		"00000001", "09",   // extensions
		"64617461", // data
	}, "")
	b, err := appendEntry(nil, &l)
	require.NoError(t, err)
	require.Equal(t, want, hex.EncodeToString(b))
	got := raft.Log{Index: 7}
	require.NoError(t, parseEntry(b, &got))
	require.Equal(t, l, got)
}

func TestNilAndEmptyAreKeptApart(t *testing.T) {
	for _, l := range []raft.Log{
		{}, {Data: []byte{}}, {Extensions: []byte{}}, {Data: []byte{}, Extensions: []byte{}},
		{Data: []byte{0}, Term: 1<<64 - 1, AppendedAt: time.Unix(-1, 0).UTC()},
	} {
		b, err := appendEntry(nil, &l)
		require.NoError(t, err)
		var got raft.Log
		require.NoError(t, parseEntry(b, &got))
		require.Equal(t, l, got)
	}
}

func TestDamagedEntriesAreErrors(t *testing.T) {
	good, err := appendEntry(nil, &raft.Log{Extensions: []byte("ext"), AppendedAt: time.Unix(1, 0)})
	require.NoError(t, err)
	change := func(at int, to byte) []byte { b := bytes.Clone(good); b[at] = to; return b }
	for name, b := range map[string][]byte{
		"empty":                              nil,
		"a short header":                     good[:entryHeader-1],
		"a short time":                       good[:entryHeader+11],
		"no length of the extensions":        good[:entryHeader+15],
		"short extensions":                   good[:len(good)-1],
		"a newer version":                    change(0, 2),
		"an unknown flag":                    change(2, 8),
		"a second of more than a nano times": change(entryHeader+8, 0xff),
		"bytes after the end":                append(bytes.Clone(good), 0),
	} {
		t.Run(name, func(t *testing.T) { require.Error(t, parseEntry(b, new(raft.Log))) })
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, l := range []raft.Log{{}, {Term: 3, Data: []byte("x"), Extensions: []byte{}, AppendedAt: time.Unix(5, 5)}} {
		b, err := appendEntry(nil, &l)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var l raft.Log
		if parseEntry(b, &l) != nil {
			return
		}
		again, err := appendEntry(nil, &l)
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}
