package main

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base/keyspace"
)

// fields are bytes that a form could get wrong.
func fields() []string {
	users := string(keyspace.AppendPrefix(nil, "users"))
	return []string{
		"", "plain", "tab\t", "\x00\xff", `"quoted"`, `back\slash`, "ünïcode", "-", "--flag", "[", "[a]b", "]", "two words", "\u202e", "\ufffd",
		`{"name":"Ada","tags":["a"]}`, users, users + "anna", users + "[x]", users + `"`, users + users + "k", users + "-",
		string(keyspace.AppendPrefix(nil, `a]"[`)) + "k", string(keyspace.AppendPrefix(nil, "\x00")) + "k", "\x00", "\x00\x00\x01k", "\x00users\x00",
	}
}

func TestEveryFormReadsWhatItPrints(t *testing.T) {
	for word, e := range encodings {
		for _, b := range fields() {
			got, err := e.decode([]byte(e.text([]byte(b))))
			require.NoError(t, err, "%s of %q", word, b)
			require.Equal(t, b, string(got), "%s of %q, printed as %s", word, b, e.text([]byte(b)))
		}
	}
}

// Every value with a quotation mark was quoted, so that JSON had a backslash before each.
func TestOnlyWhatATerminalCannotShowIsQuoted(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"Ada","path":"C:\\x"}`: `{"name":"Ada","path":"C:\\x"}`, "naïve 日本 👩‍💻": "naïve 日本 👩‍💻", "a b": "a b",
		`"json"`: `"\"json\""`, "line\n": `"line\n"`, "\xff": `"\xff"`, "\x1b[31m": `"\x1b[31m"`, "\u009b": `"\u009b"`, "": `""`, "\u202eabc": `"\u202eabc"`,
	} {
		require.Equal(t, want, encText.text([]byte(text)))
	}
}

func TestKeysShowTheirNamespaces(t *testing.T) {
	users := keyspace.AppendPrefix(nil, "users")
	for want, key := range map[string][]byte{
		"plain": []byte("plain"), "[users]anna": append(users, "anna"...), "[users]": users, `"[users]"`: []byte("[users]"),
		"[users][a/b]x": append(keyspace.AppendPrefix(users, "a/b"), 'x'), `["a]"]-`: append(keyspace.AppendPrefix(nil, "a]"), "-"...),
	} {
		if want == `["a]"]-` {
			want = `["a]"]"-"`
		}
		require.Equal(t, want, encNamespace.text(key))
	}
	for _, bad := range []string{"[", "[users", "[]x", `["users"x`, `["users]x`, `[users]"x`} {
		_, err := encNamespace.decode([]byte(bad))
		require.Error(t, err, bad)
	}
}

// FuzzForms checks that all forms print any bytes so that they read them again, and read any text without a panic.
func FuzzForms(f *testing.F) {
	for _, b := range fields() {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for word, e := range encodings {
			text := e.text(b)
			got, err := e.decode([]byte(text))
			require.NoError(t, err, word)
			require.Equal(t, string(b), string(got), word)
			require.True(t, e == encRaw || utf8.ValidString(text), word)
			if read, err := e.decode(b); err == nil {
				again, err := e.decode([]byte(e.text(read)))
				require.NoError(t, err, word)
				require.Equal(t, string(read), string(again), word)
			}
		}
	})
}

// The bytes of quoted text that is not UTF-8 were replaced.
func TestQuotedTextIsUTF8(t *testing.T) {
	for _, e := range []encoding{encText, encNamespace} {
		_, err := e.decode([]byte("\"a\xff\""))
		require.Error(t, err)
	}
	_, err := encNamespace.decode([]byte("[\"a\xff\"]k"))
	require.Error(t, err)
}
