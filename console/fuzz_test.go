package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// Whatever the body of a request is, the answer is JSON, and says what is wrong with the request and not that the
// server failed. A body that is not one JSON value changes nothing.
func FuzzBodies(f *testing.F) {
	const token = "0123456789abcdef0123456789abcdef"
	for i, body := range []string{
		`{"Key":{"Text":"a"}}`, `{"Key":{"Text":"6 1","Hex":true}}`, `{"Prefix":{"Text":"k"},"After":"6b30"}`, `{"After":"6"}`,
		`{"Action":"put","Key":{"Text":"a"},"Value":{"Text":"1"}}`, `{"Action":"delete","Key":{"Text":"a"}}`,
		`{"Key":{"Text":"a"},"At":"4"}`, `{"Hold":true}`, `{"Action":"delete","Key":{"Text":"a"},"Ask":true}`, `{"Action":"flush"}`, `{"Action":"compact"} {}`, `{"Action":"put"}}`, `[]`, `{"Key":{"Text":"\ud800"}}`, ``, `null`,
	} {
		f.Add(byte(i), body)
	}
	store, err := db.Open("db", &db.Options{FS: vfs.NewMem(), Memtables: db.MemtableOptions{Size: 64 << 10}})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, store.Close()) })
	for _, key := range []string{"a", "k00", "k01", "\xff"} {
		require.NoError(f, store.Put([]byte(key), []byte("value"), db.NoSync))
	}
	page := newHandler(store, &Options{ShowKeys: true, WriteToken: token})
	page.alone = true
	f.Cleanup(page.release) // before the store is closed
	h := page.routes()
	f.Fuzz(func(t *testing.T, which byte, body string) {
		path := []string{"/api/explain", "/api/keys", "/api/write", "/api/hold"}[which%4]
		before := store.Metrics().LastSequence
		r := httptest.NewRequest("POST", "http://127.0.0.1"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.True(t, json.Valid(w.Body.Bytes()), "%s", w.Body)
		if w.Code != http.StatusOK {
			require.Less(t, w.Code, http.StatusInternalServerError, "%s", w.Body)
			var e struct{ Error string }
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e))
			require.NotEmpty(t, e.Error)
		}
		if !json.Valid([]byte(body)) {
			require.Equal(t, http.StatusBadRequest, w.Code, "%s", w.Body)
			require.Equal(t, before, store.Metrics().LastSequence)
		}
	})
}
