package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// A page that has the store for itself can hold one moment, and explains keys as of it. It lets go after some time.
func TestHoldingAMoment(t *testing.T) {
	store := openUsed(t)
	require.Equal(t, http.StatusMethodNotAllowed, request(t, Handler(store, nil), "POST", "/api/hold", `{"Hold":true}`, nil).Code)
	page := newHandler(store, nil)
	page.alone = true
	h := page.routes()
	var held struct{ Held uint64 }
	request(t, h, "POST", "/api/hold", `{"Hold":true}`, &held)
	require.EqualValues(t, 3100, held.Held)
	require.NoError(t, store.Delete([]byte("key0150"), nil))
	var s status
	request(t, h, "GET", "/api/status", "", &s)
	require.True(t, s.Alone)
	require.Equal(t, []uint64{3100}, s.Snapshots)
	require.EqualValues(t, 3100, s.Held)
	var then, now explained
	request(t, h, "POST", "/api/explain", `{"Key":{"Text":"key0150"},"At":"3100"}`, &then)
	request(t, h, "POST", "/api/explain", `{"Key":{"Text":"key0150"}}`, &now)
	require.True(t, then.Found)
	require.True(t, now.Deleted)

	request(t, h, "POST", "/api/hold", `{"Hold":true}`, &held)
	require.EqualValues(t, 3101, held.Held, "the new moment replaces the old one")
	require.Equal(t, 1, store.Metrics().OpenSnapshots)
	w := request(t, h, "POST", "/api/explain", `{"Key":{"Text":"key0150"},"At":"3100"}`, nil)
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, errorOf(t, w), "no snapshot of this moment")
	require.Equal(t, http.StatusBadRequest, request(t, h, "POST", "/api/explain", `{"Key":{"Text":"a"},"At":"x"}`, nil).Code)
	request(t, h, "POST", "/api/hold", `{"Hold":false}`, &held)
	require.Equal(t, http.StatusNotFound, request(t, h, "POST", "/api/explain", `{"Key":{"Text":"a"},"At":"0"}`, nil).Code)
	require.Zero(t, held.Held)
	require.Zero(t, store.Metrics().OpenSnapshots)
}

func TestAHeldMomentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := db.Open("dir", &db.Options{FS: vfs.NewMem()})
		require.NoError(t, err)
		require.NoError(t, store.Put([]byte("key"), nil, nil))
		var h hold
		h.replace(store.NewSnapshot())
		time.Sleep(holdTime / 2)
		h.replace(store.NewSnapshot())
		time.Sleep(holdTime - time.Second)
		require.EqualValues(t, 1, h.sequence(), "the time of the first one is not that of the second one")
		time.Sleep(2 * time.Second)
		require.Zero(t, h.sequence())
		require.Zero(t, store.Metrics().OpenSnapshots)
		h.replace(nil)
		require.NoError(t, store.Close())
	})
}

// Before a change the page is told what is there, and nothing is changed.
func TestChangesAreAskedAbout(t *testing.T) {
	store := openUsed(t)
	h := Handler(store, &Options{WriteToken: testToken})
	ask := func(body string) answered {
		r := httptest.NewRequest("POST", "http://localhost/api/write", strings.NewReader(strings.TrimSuffix(body, "}")+`,"Ask":true}`))
		r.Header.Set("Authorization", "Bearer "+testToken)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var a answered
		require.NoError(t, decode(w, &a))
		require.Empty(t, a.Done)
		return a
	}
	before := store.Metrics()
	for body, want := range map[string]question{
		`{"Action":"put","Key":{"Text":"key0150"},"Value":{"Text":"v"}}`: {`Replace the value of the key "key0150" (7 bytes)?`, "Its value of 100 bytes is replaced by one of 1 byte.", "Replace"},
		`{"Action":"put","Key":{"Text":"ff","Hex":true}}`:                {`Add the key "\xff" (1 byte)?`, "It has no value now, and gets one of 0 bytes.", "Add"},
		`{"Action":"delete","Key":{"Text":"key0150"}}`:                   {`Delete the key "key0150" (7 bytes)?`, "Its value of 100 bytes is lost.", "Delete"},
		`{"Action":"delete","Key":{"Text":""}}`:                          {`Delete the empty key?`, "It has no value now, so nothing is lost.", "Delete"},
	} {
		require.Equal(t, &want, ask(body).Question, body)
	}
	require.Regexp(t, `^1 memtable with [\d.]+ MiB of memory become tables of level 0`, ask(`{"Action":"flush"}`).Question.Effect)
	require.Regexp(t, `^All 2 tables \([\d.]+ KiB\) are read and written again`, ask(`{"Action":"compact"}`).Question.Effect)
	after := store.Metrics()
	require.Equal(t, before.LastSequence, after.LastSequence)
	require.Equal(t, before.Flushes, after.Flushes)
	require.Equal(t, before.Compactions.Count, after.Compactions.Count)
	require.Equal(t, "1.5 KiB", sizeText(1536))
	require.Equal(t, "1023 B", sizeText(1023))
}

// The keys of slow lookups are shown only if Options say so.
func TestSlowLookupsHideTheirKeys(t *testing.T) {
	store := openUsed(t)
	page, keys := Handler(store, nil), Handler(store, &Options{ShowKeys: true})
	var slow []slowLookup
	request(t, page, "GET", "/api/slow", "", &slow)
	require.Empty(t, slow)
	for i := range 20 * 128 {
		_, err := store.Has(fmt.Appendf(nil, "key%04d", i%3000))
		require.NoError(t, err)
	}
	request(t, keys, "GET", "/api/slow", "", &slow)
	require.NotEmpty(t, slow)
	require.Regexp(t, `^key\d{4}$`, slow[0].Key.Text)
	require.NotEmpty(t, slow[0].Explanation.Steps)
	slow = nil
	request(t, Handler(store, nil), "GET", "/api/slow", "", &slow)
	require.NotEmpty(t, slow)
	for _, s := range slow {
		require.Nil(t, s.Key)
		require.Equal(t, 7, s.KeyBytes)
	}
}
