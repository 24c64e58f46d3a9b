package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeyFilesHaveOneKeyPerLine(t *testing.T) {
	type entry struct{ key, value string } // value "-": none
	tests := []struct {
		name, text string
		want       []entry
		err        string
	}{
		{name: "keys alone", text: "a\nbc\n", want: []entry{{"a", "-"}, {"bc", "-"}}},
		{name: "the last line may lack its end", text: "a\nbc", want: []entry{{"a", "-"}, {"bc", "-"}}},
		{name: "lines may end in CR LF", text: "a\r\nb\tv\r\n", want: []entry{{"a", "-"}, {"b", "v"}}},
		{name: "what follows the first TAB is the value", text: "a\tx\ty\n", want: []entry{{"a", "x\ty"}}},
		{name: "a value may be empty", text: "a\t\n", want: []entry{{"a", ""}}},
		{name: "bytes are not interpreted", text: "\xff\x00 \n", want: []entry{{"\xff\x00 ", "-"}}},
		{name: "an empty line is refused by its number", text: "a\n\nb\n", err: "line 2 has no key"},
		{name: "a value without a key is refused", text: "\tv\n", err: "line 1 has no key"},
		{name: "an empty file is refused", text: "", err: "the file has no keys"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := parseKeys([]byte(tt.text))
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			var got []entry
			for i := range list.len() {
				e := entry{string(list.key(i)), "-"}
				if v, ok := list.value(i); ok {
					e.value = string(v)
				}
				got = append(got, e)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestKeyFilesMayBeCompressed(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte("one\ntwo\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	name := filepath.Join(t.TempDir(), "keys.gz")
	require.NoError(t, os.WriteFile(name, packed.Bytes(), 0o644))
	list, err := readKeyFile(name)
	require.NoError(t, err)
	require.Equal(t, 2, list.len())
	require.Equal(t, "two", string(list.key(1)))

	require.NoError(t, os.WriteFile(name, []byte("plain"), 0o644))
	_, err = readKeyFile(name)
	require.ErrorContains(t, err, "keys.gz")
}

// testdata/README.md has the counts too.
func TestShippedWordsAreSortedAndDisjoint(t *testing.T) {
	stored, absent, err := shippedWords()
	require.NoError(t, err)
	require.Equal(t, 170_421, stored.len())
	require.Equal(t, 100_000, absent.len())
	seen := make(map[string]bool)
	for _, list := range []*keyList{stored, absent} {
		for i := range list.len() {
			key := list.key(i)
			if seen[string(key)] {
				t.Fatalf("%q occurs twice", key)
			}
			seen[string(key)] = true
			if i > 0 && bytes.Compare(list.key(i-1), key) >= 0 {
				t.Fatalf("%q is before %q", list.key(i-1), key)
			}
			if _, hasValue := list.value(i); hasValue {
				t.Fatalf("%q has a value", key)
			}
		}
	}
}
