package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// An explanation has the runs of the lookup, and keys of the store only if that is allowed.
func TestExplanations(t *testing.T) {
	store := openUsed(t)
	var x explained
	request(t, Handler(store, nil), "POST", "/api/explain", `{"Key":{"Text":"key0150"}}`, &x)
	require.True(t, x.Found)
	require.Equal(t, 0, x.Steps[len(x.Steps)-1].Level)
	require.Empty(t, x.Ranges)
	for _, s := range x.Steps {
		require.Empty(t, s.Smallest)
		require.Empty(t, s.Largest)
	}

	h := Handler(store, &Options{ShowKeys: true})
	x = explained{}
	request(t, h, "POST", "/api/explain", `{"Key":{"Text":"6b65 7930 313530 78","Hex":true}}`, &x)
	require.False(t, x.Found)
	require.Len(t, x.Ranges, len(x.Steps))
	require.Equal(t, "key0100", x.Ranges[1].Smallest.Text)
	require.Equal(t, "key0199", x.Ranges[1].Largest.Text)
	require.Nil(t, x.Ranges[0].Smallest, "a memtable")

	for body, want := range map[string]string{`{"Key":{"Text":"6","Hex":true}}`: "hexadecimal", `{"Key":1}`: "JSON", `{"key2":""}`: "unknown field", ``: "JSON"} {
		w := request(t, h, "POST", "/api/explain", body, nil)
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Contains(t, errorOf(t, w), want)
	}
}

// Pages of keys follow each other without a gap, up to the end of the prefix.
func TestKeysByPrefix(t *testing.T) {
	store := openUsed(t)
	require.Equal(t, http.StatusMethodNotAllowed, request(t, Handler(store, nil), "POST", "/api/keys", `{}`, nil).Code)
	h := Handler(store, &Options{ShowKeys: true})
	var got []string
	for after := ""; ; {
		var p page
		request(t, h, "POST", "/api/keys", fmt.Sprintf(`{"Prefix":{"Text":"key01"},"After":%q}`, after), &p)
		for _, e := range p.Entries {
			got = append(got, e.Key.Text)
			require.Equal(t, 100, e.Value.Bytes)
		}
		if after = p.Next; after == "" {
			break
		}
		require.Len(t, p.Entries, pageSize)
	}
	require.Len(t, got, 100)
	require.Equal(t, "key0100", got[0])
	require.Equal(t, "key0199", got[99])

	require.NoError(t, store.Delete([]byte("key0149"), db.NoSync))
	var p page
	request(t, h, "POST", "/api/keys", `{"Prefix":{"Text":"key01"},"After":"6b657930313439"}`, &p)
	require.Equal(t, "key0150", p.Entries[0].Key.Text, "after a key that was deleted meanwhile")
	p = page{}
	request(t, h, "POST", "/api/keys", `{"Prefix":{"Text":"other"}}`, &p)
	require.Empty(t, p.Entries)
	for _, body := range []string{`{"Prefix":{"Text":"x","Hex":true}}`, `{"After":"x"}`, `[]`} {
		require.Equal(t, http.StatusBadRequest, request(t, h, "POST", "/api/keys", body, nil).Code, body)
	}
}

// A search that takes too long has a key to continue after, however little it has found.
func TestKeysAreFoundInTheEnd(t *testing.T) {
	store := openUsed(t)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	h := Handler(store, &Options{ShowKeys: true})
	var got []string
	for after, requests := "", 0; requests < 200; requests++ {
		r := httptest.NewRequest("POST", "http://127.0.0.1/api/keys", strings.NewReader(fmt.Sprintf(`{"Prefix":{"Text":"key01"},"After":%q}`, after)))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(ended))
		var p page
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
		require.Equal(t, p.Stopped, p.Next != "")
		for _, e := range p.Entries {
			got = append(got, e.Key.Text)
		}
		if after = p.Next; after == "" {
			break
		}
	}
	require.Len(t, got, 100)
	require.Equal(t, "key0199", got[99])
}

// In another order than that of bytes, keys with the same prefix are not neighbours, and may be before it.
func TestKeysInAnotherOrder(t *testing.T) {
	o := &db.Options{FS: vfs.NewMem()}
	o.Comparer = &db.Comparer{Name: "reverse", Compare: func(a, b []byte) int { return bytes.Compare(b, a) }}
	store, err := db.Open("dir", o)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	for i := range 120 {
		require.NoError(t, store.Put(fmt.Appendf(nil, "%c%03d", 'a'+i%2, i), nil, db.NoSync))
	}
	h := Handler(store, &Options{ShowKeys: true})
	var first, second page
	request(t, h, "POST", "/api/keys", `{"Prefix":{"Text":"a"}}`, &first)
	require.Len(t, first.Entries, pageSize)
	require.Equal(t, "a118", first.Entries[0].Key.Text)
	request(t, h, "POST", "/api/keys", fmt.Sprintf(`{"Prefix":{"Text":"a"},"After":%q}`, first.Next), &second)
	require.Len(t, second.Entries, 10)
	require.Equal(t, "a000", second.Entries[9].Key.Text)
	require.Empty(t, second.Next)
}

func TestShownBytes(t *testing.T) {
	require.Equal(t, &shown{Text: `a\x00"é\\`, Hex: "610022c3a95c", Bytes: 6}, show([]byte("a\x00\"é\\")))
	require.Equal(t, `{"name":"\\""}`, show([]byte(`{"name":"\""}`)).Text, "JSON stays legible")
	long := show([]byte(strings.Repeat("é", 300)))
	require.Equal(t, 600, long.Bytes)
	require.Equal(t, strings.Repeat("é", 128)+"…", long.Text)
	odd := show([]byte("a" + strings.Repeat("é", 300)))
	require.Equal(t, "a"+strings.Repeat("é", 127)+"…", odd.Text, "not cut in a character")
	require.True(t, strings.HasSuffix(show(bytes.Repeat([]byte{0xff}, 300)).Text, `\xff…`))
}

// Writes need the token, and an Options that has one.
func TestWritesNeedTheToken(t *testing.T) {
	store, err := db.Open("dir", &db.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	send := func(o *Options, authorization, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://localhost/api/write", strings.NewReader(body))
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		Handler(store, o).ServeHTTP(w, r)
		return w
	}
	const put = `{"Action":"put","Key":{"Text":"k"},"Value":{"Text":"v"}}`
	require.Equal(t, http.StatusMethodNotAllowed, send(nil, "Bearer ", put).Code)
	require.Equal(t, http.StatusMethodNotAllowed, send(&Options{WriteToken: "short"}, "Bearer short", put).Code)
	allowed := &Options{WriteToken: testToken}
	for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer " + testToken[1:], "Bearer " + testToken + "x"} {
		require.Equal(t, http.StatusForbidden, send(allowed, wrong, put).Code, wrong)
	}
	found, err := store.Has([]byte("k"))
	require.NoError(t, err)
	require.False(t, found)

	right := "Bearer " + testToken
	require.Equal(t, http.StatusOK, send(allowed, right, put).Code)
	value, err := store.Get([]byte("k"))
	require.NoError(t, err)
	require.Equal(t, "v", string(value))
	for _, action := range []string{"flush", "compact"} {
		require.Equal(t, http.StatusOK, send(allowed, right, `{"Action":"`+action+`"}`).Code)
	}
	require.EqualValues(t, 1, store.Metrics().Flushes.Count)
	require.Equal(t, http.StatusOK, send(allowed, right, `{"Action":"delete","Key":{"Text":"k"}}`).Code)
	_, err = store.Get([]byte("k"))
	require.ErrorIs(t, err, db.ErrNotFound)
	for _, wrong := range []string{`{"Action":"drop"}`, `{`, `{"Key":{"Text":"1","Hex":true}}`, `{"Value":{"Text":"1","Hex":true}}`} {
		require.Equal(t, http.StatusBadRequest, send(allowed, right, wrong).Code, wrong)
	}
}
