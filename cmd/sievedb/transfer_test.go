package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func readFrames(content []byte) (entries []entry, err error) {
	r := &frameReader{r: bufio.NewReader(bytes.NewReader(content))}
	for {
		g, err := r.next()
		if err != nil {
			return entries, err
		}
		entries = append(entries, g.entries...)
	}
}

func smallExport(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	f := &frames{w: bufio.NewWriter(&b)}
	require.NoError(t, f.header(7))
	require.NoError(t, f.add([]byte("a"), []byte("1")))
	require.NoError(t, f.flush())
	require.NoError(t, f.add([]byte{0xff}, nil))
	require.NoError(t, f.finish())
	return b.Bytes()
}

// Every damaged byte and every cut of the binary form is an error: no entry is lost without one.
func TestDamageToAnExportIsFound(t *testing.T) {
	content := smallExport(t)
	entries, err := readFrames(content)
	require.Equal(t, io.EOF, err)
	require.Equal(t, []entry{{[]byte("a"), []byte("1")}, {[]byte{0xff}, []byte{}}}, entries)
	for at := range content {
		damaged := bytes.Clone(content)
		damaged[at] ^= 0x08
		_, err := readFrames(damaged)
		require.NotEqual(t, io.EOF, err, "byte %d", at)
	}
	for n := range content {
		_, err := readFrames(content[:n])
		require.ErrorIs(t, err, errTruncated, "cut to %d bytes", n)
	}
	_, err = readFrames(append(content, 0))
	require.ErrorContains(t, err, "after the end")
}

func FuzzFrames(f *testing.F) {
	f.Add(smallExport(f))
	f.Fuzz(func(t *testing.T, content []byte) {
		entries, err := readFrames(content)
		if err != io.EOF {
			return
		}
		var b bytes.Buffer
		w := &frames{w: bufio.NewWriter(&b)}
		require.NoError(t, w.header(0))
		for _, e := range entries {
			require.NoError(t, w.add(e.Key, e.Value))
		}
		require.NoError(t, w.finish())
		again, err := readFrames(b.Bytes())
		require.Equal(t, io.EOF, err)
		require.Equal(t, entries, again)
	})
}

func TestLinesOfJSON(t *testing.T) {
	for _, c := range []struct{ line, key, value, err string }{
		{`{"key":"a","value":"1"}`, "a", "1", ""},
		{`{"value":"","key":""}`, "", "", ""},
		{`{"keyBase64":"/w==","valueHex":"00"}`, "\xff", "\x00", ""},
		{`{"key":"a"}`, "", "", "want {"},
		{`{"key":"a","keyHex":"61","value":""}`, "", "", "want {"},
		{`{"key":"a","value":"1"} {}`, "", "", "want {"},
		{`{"key":"a","value":"1"}}`, "", "", "want {"},
		{`{"key":"a","value":"1","more":1}`, "", "", "unknown field"},
		{`{"keyHex":"6","value":""}`, "", "", "hex"},
		{`{"keyBase64":"!","value":""}`, "", "", "base64"},
		{"{\"key\":\"\xff\",\"value\":\"\"}", "", "", "not UTF-8"},
		{``, "", "", "want {"},
	} {
		key, value, err := parseJSONLine([]byte(c.line))
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.line)
			continue
		}
		require.NoError(t, err, c.line)
		require.Equal(t, c.key, string(key))
		require.Equal(t, c.value, string(value))
	}
}

// A file of lines whose first key begins with a brace, or with the magic of the binary form, was taken for another
// form.
func TestLinesAreImportedWhateverTheirFirstKey(t *testing.T) {
	for _, key := range []string{`{"id":1}`, `{`, "sieveEXP", "sieveEXPort", "\xff"} {
		for _, flags := range [][]string{nil, {"--key-format", "json"}, {"--key-format", "json", "--value-format", "json"}} {
			from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
			works(t, "create", from)
			works(t, "put", from, "--hex", hex.EncodeToString([]byte(key)), "ff7b")
			lines := works(t, append([]string{"scan", from}, flags...)...)
			var stderr bytes.Buffer
			code := run(t.Context(), append([]string{"import", to}, flags...), strings.NewReader(lines), &bytes.Buffer{}, &stderr)
			require.Equal(t, exitOK, code, "%q %v: %s", key, flags, stderr.String())
			require.Equal(t, works(t, "scan", from), works(t, "scan", to), "%q %v", key, flags)
		}
	}
}
