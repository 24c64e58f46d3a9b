package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

const testToken = "a token of 26 characters"

// openUsed returns a store with tables on two levels, and lookups of present and absent keys.
func openUsed(t *testing.T) *db.DB {
	t.Helper()
	o := &db.Options{FS: vfs.NewMem()}
	o.Compaction.L0Slowdown, o.Compaction.L0Stop = 20, 30
	store, err := db.Open("dir", o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			require.NoError(t, store.Put(fmt.Appendf(nil, "key%04d", i), bytes.Repeat([]byte{byte('a' + i%26)}, 100), db.NoSync))
		}
		require.NoError(t, store.Flush())
	}
	fill(0, 3000)
	require.NoError(t, store.Compact(context.Background(), nil, nil))
	fill(100, 200)
	for i := range 600 {
		_, err := store.Has(fmt.Appendf(nil, "key%04d%s", i, strings.Repeat("x", i%2)))
		require.NoError(t, err)
	}
	return store
}

// request sends a request of the page, and decodes the answer into into if it is not nil.
func request(t *testing.T, h http.Handler, method, path, body string, into any) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:7433"+path, strings.NewReader(body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if into != nil {
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, decode(w, into))
	}
	return w
}

func decode(w *httptest.ResponseRecorder, into any) error {
	return json.Unmarshal(w.Body.Bytes(), into)
}

// errorOf returns the error in an answer.
func errorOf(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var e struct{ Error string }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e), w.Body)
	return e.Error
}

func TestPageAndItsFiles(t *testing.T) {
	h := Handler(openUsed(t), nil)
	entries, err := assets.ReadDir("assets")
	require.NoError(t, err)
	for _, e := range entries {
		path := "/" + e.Name()
		if path == "/index.html" {
			path = "/"
		}
		w := request(t, h, "GET", path, "", nil)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Equal(t, policy, w.Header().Get("Content-Security-Policy"))
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Equal(t, types[filepath.Ext(e.Name())], w.Header().Get("Content-Type"), path)
		text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
		require.NotContains(t, text, "://", "%s loads nothing from elsewhere", path)
		require.NotContains(t, text, "innerHTML", path)
		require.NotRegexp(t, `<[^>]*\b(style|on\w+)=`, text, "%s: the policy forbids it", path)
	}
	require.Equal(t, http.StatusNotFound, request(t, h, "GET", "/missing", "", nil).Code)
	require.Equal(t, http.StatusMethodNotAllowed, request(t, h, "POST", "/api/status", "", nil).Code)
}

// A web site could make its own name mean this machine; its pages must not read the answers.
func TestOnlyKnownHostsAreServed(t *testing.T) {
	h := Handler(openUsed(t), &Options{Hosts: []string{"db.example.com"}})
	for host, want := range map[string]int{
		"127.0.0.1:7433": 200, "localhost:7433": 200, "LOCALHOST": 200, "localhost.": 200, "[::1]:7433": 200, "[::1]": 200, "192.168.1.2": 200,
		"db.example.com": 200, "DB.example.com:80": 200,
		"example.com": 403, "127.0.0.1.example.com": 403, "localhost.example.com:7433": 403, "": 403, "x.db.example.com": 403,
	} {
		r := httptest.NewRequest("GET", "/api/status", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, "host %q", host)
	}
}

// Pages of other origins cannot do anything with the browser of a person who can.
func TestOtherOriginsAreRefused(t *testing.T) {
	h := Handler(openUsed(t), nil)
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "http://example.com"} {
		r := httptest.NewRequest("POST", "http://127.0.0.1:7433/api/explain", strings.NewReader(`{"Key":{"Text":"a"}}`))
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusForbidden, w.Code, header)
	}
}

func TestStatusHasTheMetrics(t *testing.T) {
	store := openUsed(t)
	var s status
	request(t, Handler(store, &Options{Title: "a title"}), "GET", "/api/status", "", &s)
	require.Equal(t, "a title", s.Title)
	require.Equal(t, "store", s.Mode)
	require.False(t, s.ShowKeys || s.Write)
	require.EqualValues(t, 600, s.Metrics.Lookups.Count)
	require.Equal(t, []int{20, 30}, []int{s.L0Slowdown, s.L0Stop})
	require.Nil(t, s.Lag)

	s = status{}
	request(t, Handler(store, &Options{WriteToken: "short"}), "GET", "/api/status", "", &s)
	require.Equal(t, "dir", s.Title)
	require.False(t, s.Write, "a token that can be guessed allows nothing")
	require.NoError(t, store.SetReadOnly())
	s = status{}
	request(t, Handler(store, nil), "GET", "/api/status", "", &s)
	require.Equal(t, "read-only", s.Mode)
}

// The bug: the page called a follower a store unless the program had said that it is one.
func TestAFollowerIsCalledOne(t *testing.T) {
	o := &db.Options{FS: vfs.NewMem()}
	store, err := db.Open("dir", o)
	require.NoError(t, err)
	defer store.Close()
	follower, err := db.OpenFollower("dir", o)
	require.NoError(t, err)
	defer follower.Close()
	require.NoError(t, store.Put([]byte("key"), nil, nil))
	var s status
	request(t, Handler(follower, nil), "GET", "/api/status", "", &s)
	require.Equal(t, "follower", s.Mode)
	require.EqualValues(t, 1, s.Lag.Operations)
}

// Any number of pages costs one reading of the store.
func TestAnswersAreShared(t *testing.T) {
	s, made := shared{lasts: time.Hour, most: time.Hour}, 0
	make := func() (any, error) { made++; return made, nil }
	for range 3 {
		text, err := s.get(make)
		require.NoError(t, err)
		require.Equal(t, "1", string(text))
	}
	s.until = s.until.Add(-2 * time.Hour)
	text, err := s.get(make)
	require.NoError(t, err)
	require.Equal(t, "2", string(text))

	s.until = s.until.Add(-2 * time.Hour)
	_, err = s.get(func() (any, error) { return nil, failure{500, "failed"} })
	require.EqualError(t, err, "failed")
	_, err = s.get(func() (any, error) { return func() {}, nil })
	require.ErrorContains(t, err, "unsupported")
}

// An answer that takes long is made seldom.
func TestSlowAnswersLastLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, made := shared{lasts: time.Second, most: time.Minute}, 0
		make := func() (any, error) { made++; time.Sleep(30 * time.Millisecond); return made, nil }
		for range 100 {
			_, err := s.get(make)
			require.NoError(t, err)
			time.Sleep(500 * time.Millisecond)
		}
		require.Equal(t, 6, made, "once in 9 seconds, of 50")
	})
}

// The page of a follower whose directory was away for a moment showed the error for 41 seconds after the
// directory was back: an answer that had waited 0.14 s was used for 300 times as long.
func TestAnswersThatWaitedAreNotKeptForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, made := shared{lasts: time.Second, most: 3 * time.Second}, 0
		make := func() (any, error) { made++; time.Sleep(140 * time.Millisecond); return made, nil }
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{0, "1"}, {3*time.Second - 1, "1"}, {1, "2"}} {
			time.Sleep(step.after)
			text, err := s.get(make)
			require.NoError(t, err)
			require.Equal(t, step.want, string(text))
		}
	})
}

func TestTablesReportAndPlan(t *testing.T) {
	store := openUsed(t)
	h := Handler(store, nil)
	var tables, probed report.FilterReport
	request(t, h, "GET", "/api/tables", "", &tables)
	require.Len(t, tables.Tables, 2)
	require.Zero(t, tables.Tables[0].Probes.Absent)

	request(t, h, "POST", "/api/filters", `{"Probes":500}`, &probed)
	require.Positive(t, probed.Tables[0].Probes.Absent)
	require.EqualValues(t, "good", probed.Tables[1].Verdict)
	require.Contains(t, errorOf(t, request(t, h, "POST", "/api/filters", `{"Probes":0}`, nil)), "probes")

	var p planned
	request(t, h, "GET", "/api/plan", "", &p)
	require.EqualValues(t, 3100, p.Keys)
	require.Equal(t, 2, p.Known)
	require.True(t, p.MissKnown)
	require.Positive(t, p.Miss)
	require.Greater(t, len(p.Curve), 10)
	require.InDelta(t, float64(p.FilterBytes), p.At.Bytes, 1)

	// All pages share a plan, until a measurement has opened tables.
	text := func() string { return request(t, h, "GET", "/api/plan", "", nil).Body.String() }
	before := text()
	require.NoError(t, store.Put([]byte("new"), make([]byte, 1<<20), db.NoSync))
	require.NoError(t, store.Flush())
	require.Equal(t, before, text())
	request(t, h, "POST", "/api/filters", `{"Probes":1}`, &probed)
	require.NotEqual(t, before, text())

	x := &handler{store: store}
	x.probing.Lock()
	_, err := x.probe(httptest.NewRequest("POST", "/", strings.NewReader(`{"Probes":1}`)))
	require.Equal(t, http.StatusConflict, err.(failure).code)
}

// ownPolicy is a policy of a program, whose bits cannot be chosen.
type ownPolicy struct{ filter.Policy }

func TestThereMayBeNoPlan(t *testing.T) {
	o := &db.Options{FS: vfs.NewMem()}
	o.Filters.Policy = ownPolicy{filter.FusePolicy{}}
	store, err := db.Open("dir", o)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	var p planned
	request(t, Handler(store, nil), "GET", "/api/plan", "", &p)
	require.Contains(t, p.Missing, "No open table")
	require.Nil(t, p.FilterPlan)
	require.NoError(t, store.Put([]byte("key"), nil, nil))
	require.NoError(t, store.Flush())
	_, err = store.Get([]byte("key"))
	require.NoError(t, err)
	p = planned{}
	request(t, Handler(store, nil), "GET", "/api/plan", "", &p)
	require.Contains(t, p.Missing, "filter.BloomPolicy")

	o = &db.Options{FS: vfs.NewMem()}
	o.Filters.Policy = filter.None
	off, err := db.Open("dir", o)
	require.NoError(t, err)
	defer func() { require.NoError(t, off.Close()) }()
	p = planned{}
	request(t, Handler(off, nil), "GET", "/api/plan", "", &p)
	require.Contains(t, p.Missing, "Filters are off")
}

// The rate that absent keys meet is the sum over the tables of level 0 and the means of other levels.
func TestPresentPoint(t *testing.T) {
	table := func(level int, bytes uint64, rate float64) report.TableFilterReport {
		return report.TableFilterReport{Level: level, Bytes: bytes, FilterFigures: report.FilterFigures{Keys: 1, Predicted: rate}}
	}
	p := planned{MissKnown: true}
	p.present(&report.FilterReport{Tables: []report.TableFilterReport{
		table(0, 5, .01), table(0, 1, .02), table(1, 10, .1), table(1, 30, .2), table(6, 7, .5), {Level: 6, FilterFigures: report.FilterFigures{Predicted: -1}},
	}})
	require.True(t, p.MissKnown, "a table that is not open is assumed to be like the others")
	require.InDelta(t, .01+.02+.175+.5, p.Miss, 1e-12)
	p.present(&report.FilterReport{Tables: []report.TableFilterReport{table(1, 1, -1)}})
	require.False(t, p.MissKnown)
}

// A page of a closed store says so.
func TestErrorsOfTheStoreAreAnswers(t *testing.T) {
	store := openUsed(t)
	h := Handler(store, &Options{ShowKeys: true, WriteToken: testToken})
	require.NoError(t, store.Close())
	for _, r := range [][3]string{
		{"GET", "/api/status", ""}, {"GET", "/api/tables", ""}, {"GET", "/api/plan", ""}, {"POST", "/api/explain", `{"Key":{"Text":"a"}}`},
		{"POST", "/api/filters", `{"Probes":10}`}, {"POST", "/api/keys", `{}`},
	} {
		w := request(t, h, r[0], r[1], r[2], nil)
		require.Equal(t, http.StatusInternalServerError, w.Code, r[1])
		require.Contains(t, errorOf(t, w), "closed", r[1])
	}
}

func TestMetricsForScrapes(t *testing.T) {
	w := request(t, Handler(openUsed(t), nil), "GET", "/metrics", "", nil)
	require.Contains(t, w.Header().Get("Content-Type"), "version=0.0.4")
	require.Contains(t, w.Body.String(), "\nsievedb_lookups_total 600\n")
}

// Each verdict on the filter of a table has a color.
func TestEveryVerdictHasALook(t *testing.T) {
	drawing, err := assets.ReadFile("assets/levels.js")
	require.NoError(t, err)
	for _, v := range []report.FilterVerdict{
		report.VerdictDamaged, report.VerdictDenies, report.VerdictUnknown, report.VerdictNoFilter, report.VerdictSaturated, report.VerdictCollisions,
		report.VerdictHighRate, report.VerdictNeverQueried, report.VerdictGood, report.VerdictOff, report.VerdictUnopened,
	} {
		require.Contains(t, string(drawing), fmt.Sprintf("[%q, [", v))
	}
}
