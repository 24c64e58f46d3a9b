package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A line that is accepted is one value of JSON, and what export prints for its key and value is read as the same.
func FuzzJSONLines(f *testing.F) {
	for _, line := range []string{
		`{"key":"a","value":"1"}`, `{"value":"","key":""}`, `{"keyBase64":"/w==","valueHex":"00"}`, `{"key":"a","value":"1"} {}`,
		`{"key":"a","value":"1"}}`, `{"key":"\ud800","value":"1"}`, "{\"key\":\"\xff\",\"value\":\"\"}", `{"keyBase64":"/w","value":null}`, ``,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		key, value, err := parseJSONLine(line)
		if err != nil {
			return
		}
		require.True(t, json.Valid(line))
		for _, enc := range []encoding{encText, encHex, encBase64, encNamespace} {
			var b bytes.Buffer
			w := &jsonLines{w: bufio.NewWriter(&b), format: format{enc, encText}}
			require.NoError(t, w.add(key, value))
			require.NoError(t, w.finish())
			k, v, err := parseJSONLine(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
			require.NoError(t, err, "%s", b.Bytes())
			require.Equal(t, string(key), string(k))
			require.Equal(t, string(value), string(v))
		}
	})
}

// Whatever a file with the state of an import has, an import that continues begins within its file, at the place where
// the state says, or fails.
func FuzzImportState(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "in.jsonl")
	const size = 100
	require.NoError(f, os.WriteFile(path, make([]byte, size), 0o600))
	to, err := filepath.Abs("a database that is not opened") // the same in each process that fuzzes
	require.NoError(f, err)
	sound, err := json.Marshal(importState{Dir: to, Size: size, Offset: 40, Entries: 3, Format: formJSON})
	require.NoError(f, err)
	f.Add(sound)
	for _, text := range []string{``, `{}`, `null`, `{"dir":"x"}`, `[]`} {
		f.Add([]byte(text))
	}
	f.Add(bytes.Replace(sound, []byte("40"), []byte("101"), 1))
	f.Add(bytes.Replace(sound, []byte("40"), []byte("-1"), 1))
	f.Fuzz(func(t *testing.T, text []byte) {
		in, err := os.Open(path)
		require.NoError(t, err)
		defer in.Close()
		require.NoError(t, os.WriteFile(path+stateSuffix, text, 0o600))
		state, err := newImportState(to, path, in, &importFlags{format: formAuto, resume: true})
		if err != nil {
			require.ErrorContains(t, err, "import without --resume")
			return
		}
		at, err := in.Seek(0, io.SeekCurrent)
		require.NoError(t, err)
		require.Equal(t, state.Offset, at)
		require.GreaterOrEqual(t, at, int64(0))
		require.LessOrEqual(t, at, int64(size))
		require.Equal(t, to, state.Dir)
		require.Equal(t, path+stateSuffix, state.path)
	})
}
