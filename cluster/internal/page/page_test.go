package page

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/browsertest"
	"github.com/sievedb/sievedb/vfs"
)

// fakeSource is a cluster of four nodes, of which one is silent, unless state is another one.
type fakeSource struct {
	asked atomic.Int64
	store *db.DB // of group 1; replaced by tests
	users atomic.Int64
	state atomic.Pointer[func() overview.Overview]
}

func newFake(t *testing.T) *fakeSource {
	return &fakeSource{store: openStore(t)}
}

func openStore(t *testing.T) *db.DB {
	store, err := db.Open("state", &db.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	require.NoError(t, store.Put([]byte("secret-key"), []byte("secret-value"), nil))
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func (f *fakeSource) Overview(context.Context) overview.Overview {
	asked := uint64(f.asked.Add(1))
	o := cluster(4, 16, "4")
	if state := f.state.Load(); state != nil {
		o = (*state)()
	}
	o.At = time.Unix(1e9, 0).Add(time.Duration(asked) * time.Second)
	for i := range o.Groups {
		if g := &o.Groups[i]; g.Leader != "" {
			g.Commit = 100000 + asked*uint64(40+i)
		}
	}
	o.Findings = overview.Findings(&o)
	return o
}

// cluster is an overview of three replicas of each group on some nodes, of which some are silent.
func cluster(nodes, groups int, silent ...string) overview.Overview {
	o := overview.Overview{Node: "1", Cluster: "c0ffee", Replicas: 3, HeartbeatMs: 1000, DeadAfterMs: 300_000}
	for i := range nodes {
		n := overview.Node{
			ID: fmt.Sprint(i + 1), Addr: fmt.Sprintf("node-%d.example.internal:7001", i+1),
			Zone: fmt.Sprintf("rack-%d", i+1), State: overview.Up,
			Answered: true, Replicas: 3 * groups / nodes, Figures: &overview.Figures{
				Version: "v1.2.0", UptimeSeconds: 300_000, DiskUsedBytes: 3 << 30, DiskFreeBytes: 120 << 30,
				DiskReserveBytes: 256 << 20,
				MemoryBytes:      700 << 20, FsyncP99Us: 2100, CommandsPerSecond: 12345,
			},
		}
		if slices.Contains(silent, n.ID) {
			n.State, n.Answered, n.SilentMs, n.Why, n.FiguresAgeMs = overview.Silent, false, 3000, "no answer in "+
				"<b>1s</b>", 3500
		}
		o.Nodes = append(o.Nodes, n)
	}
	for group := range kv.GroupID(groups) {
		first := int(group) % 3
		g := overview.Group{Group: group, Leader: fmt.Sprint(1 + first), Term: 7, Commit: 100000, Local: group == 1}
		g.First, g.Last = slot.Range(group, groups)
		for i := range 3 {
			id := fmt.Sprint(1 + (first+i)%nodes)
			r := overview.Replica{Node: id, Voter: id != "4", Known: true, Applied: 100000, Last: 100000}
			if slices.Contains(silent, id) {
				r.Known, r.AgeMs = false, 3000
				if g.Leader == id {
					g.Leader = ""
				}
			}
			switch {
			case group == 5 && i == 1:
				r.Lag = 12345
			case group == 6 && i == 1:
				r.Failed = "the checksum of a block is wrong"
			}
			g.Replicas = append(g.Replicas, r)
		}
		if group == 9 {
			g.Leader = ""
		}
		o.Groups = append(o.Groups, g)
	}
	return o
}

func (f *fakeSource) WithState(group kv.GroupID, use func(*db.DB) error) error {
	if group != 1 {
		return errors.New("not here")
	}
	f.users.Add(1)
	defer f.users.Add(-1)
	return use(f.store)
}

func serve(t *testing.T, f *fakeSource) *httptest.Server {
	server := httptest.NewServer(Handler(f, "console.example"))
	t.Cleanup(server.Close)
	return server
}

func request(t *testing.T, server *httptest.Server, method, path string, change func(*http.Request)) (*http.Response, string) {
	r, err := http.NewRequest(method, server.URL+path, strings.NewReader(`{"Key":"eA=="}`))
	require.NoError(t, err)
	if change != nil {
		change(r)
	}
	answer, err := server.Client().Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(text)
}

func TestOtherWebSitesGetNothing(t *testing.T) {
	server := serve(t, newFake(t))
	paths := []string{"/", "/api/cluster", "/group/1/", "/group/1/api/status"}
	for _, path := range paths {
		for host, code := range map[string]int{
			"evil.example": http.StatusForbidden, "127.0.0.1.evil.example": http.StatusForbidden, "": http.StatusOK,
			"localhost:80": http.StatusOK, "[::1]:80": http.StatusOK, "console.example": http.StatusOK,
		} {
			answer, text := request(t, server, "GET", path, func(r *http.Request) { r.Host = host })
			require.Equal(t, code, answer.StatusCode, "%s under %q: %s", path, host, text)
			require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
			require.Contains(t, answer.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
			require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"))
			require.Equal(t, "same-origin", answer.Header.Get("Cross-Origin-Resource-Policy"))
			require.Empty(t, answer.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	answer, _ := request(t, server, "POST", "/group/1/api/explain", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
}

func TestNothingIsChangedAndNoDataIsShown(t *testing.T) {
	f := newFake(t)
	server := serve(t, f)
	for _, method := range []string{"PUT", "DELETE", "POST", "PATCH"} {
		for _, path := range []string{"/", "/api/cluster", "/group/1/", "/group/1/api/status", "/group/1/api/write", "/group/1/api/keys"} {
			answer, text := request(t, server, method, path, nil)
			require.GreaterOrEqual(t, answer.StatusCode, 400, "%s %s", method, path)
			require.NotContains(t, text, "secret")
		}
	}
	for _, path := range []string{"/group/1/api/status", "/group/1/api/tables", "/group/1/metrics", "/api/cluster"} {
		answer, text := request(t, server, "GET", path, nil)
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
		require.NotContains(t, text, "secret")
	}
	for _, path := range []string{"/group/2/", "/group/x/", "/group/99999999999/", "/assets/", "/..%2fpage.go"} {
		answer, _ := request(t, server, "GET", path, nil)
		require.Equal(t, http.StatusNotFound, answer.StatusCode, path)
	}
	value, err := f.store.Get([]byte("secret-key"))
	require.NoError(t, err)
	require.Equal(t, "secret-value", string(value))
}

func TestManyPagesShareOneLookAtTheCluster(t *testing.T) {
	f := newFake(t)
	server := serve(t, f)
	begin := time.Now()
	for range 50 {
		_, text := request(t, server, "GET", "/api/cluster", nil)
		require.True(t, json.Valid([]byte(text)))
	}
	require.LessOrEqual(t, f.asked.Load(), 1+int64(time.Since(begin)/(900*time.Millisecond))+1)
}

// A state that is replaced waits for its users, so it must not be held for a client that does not read its answer.
func TestASlowClientDoesNotHoldTheDatabase(t *testing.T) {
	f := newFake(t)
	h := Handler(f)
	held := false
	w := &slowWriter{header: http.Header{}, onWrite: func() { held = held || f.users.Load() > 0 }}
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/group/1/style.css", nil))
	require.Greater(t, w.written, 1000)
	require.False(t, held)
	w = &slowWriter{header: http.Header{}, onWrite: func() {}}
	r := httptest.NewRequest("POST", "http://localhost/group/1/api/explain", readerFunc(func([]byte) (int, error) {
		held = held || f.users.Load() > 0
		return 0, io.EOF
	}))
	h.ServeHTTP(w, r)
	require.False(t, held)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type slowWriter struct {
	header  http.Header
	onWrite func()
	written int
}

func (w *slowWriter) Header() http.Header { return w.header }
func (w *slowWriter) WriteHeader(int)     {}
func (w *slowWriter) Write(p []byte) (int, error) {
	w.onWrite()
	w.written += len(p)
	return len(p), nil
}

func TestTheConsoleFollowsAStateThatIsReplaced(t *testing.T) {
	f := newFake(t)
	server := serve(t, f)
	entries := func() string {
		_, text := request(t, server, "GET", "/group/1/metrics", nil)
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "sievedb_last_sequence ") {
				return line
			}
		}
		return text
	}
	before := entries()
	f.store = openStore(t)
	require.NoError(t, f.store.Put([]byte("more"), nil, nil))
	require.NotEqual(t, before, entries())
}

// look is what a look at the page finds.
type look struct {
	Width, Inner            int
	Outside, Unnamed, Faint []string
	Headings                []int
	Cards, Nodes            int
	Bold                    int // elements b: a text was taken for HTML
	Strip, Alerts           string
}

// lookScript returns a look. Contrast is that of WCAG 2.
//
//go:embed testdata/look.js
var lookScript string

// open shows the page of a cluster in a browser, once it has drawn some answers.
func open(t *testing.T, f *fakeSource) (*browsertest.Tab, *httptest.Server) {
	server := httptest.NewServer(handlerOf(f, f.Overview, nil)) // each answer is new
	t.Cleanup(server.Close)
	p := browsertest.Open(t, browsertest.Find(t), 1280, 1000, false)
	p.Visit(server.URL + "/")
	waitFor(t, p, `document.querySelector(".chart .line")`)
	return p, server
}

// waitFor waits until a condition holds in the page, which asks at once instead of once a second.
func waitFor(t *testing.T, p *browsertest.Tab, condition string) {
	t.Helper()
	var holds bool
	p.Run(`(async () => { for (let i = 0; i < 1000; i++) { if (`+condition+`) return true;
document.dispatchEvent(new Event("visibilitychange")); await new Promise(r => setTimeout(r, 20)); } return false; })()`, &holds)
	var text string
	if !holds {
		p.Run(`document.body.innerText`, &text)
	}
	require.True(t, holds, "%s; complaints: %v; the page: %s", condition, p.Console, text)
}

// views are sizes of the window in both schemes.
var views = []struct {
	name          string
	width, height int
	dark          bool
}{
	{"light-screen", 1280, 1000, false}, {"dark-screen", 1280, 1000, true},
	{"dark-phone", 390, 844, true}, {"light-phone", 320, 700, false},
}

// requireLegible requires that the page can be read in all views, and returns the last look.
func requireLegible(t *testing.T, p *browsertest.Tab, name string) (l look) {
	t.Helper()
	for i, v := range views {
		if testing.Short() && i%2 > 0 {
			continue // the light screen and the dark phone remain
		}
		p.SetDark(v.dark)
		p.Resize(v.width, v.height)
		l = look{}
		p.Run(lookScript, &l)
		require.LessOrEqual(t, l.Width, l.Inner, "%s: the page scrolls sideways", v.name)
		require.Empty(t, l.Outside, "%s: outside of the window", v.name)
		require.Empty(t, l.Unnamed, "%s: without a name", v.name)
		require.Empty(t, l.Faint, "%s: low contrast", v.name)
		require.Zero(t, l.Bold)
		for i, h := range l.Headings {
			require.True(t, i == 0 && h == 1 || i > 0 && h <= l.Headings[i-1]+1, "%s: headings %v", v.name, l.Headings)
		}
		if dir := os.Getenv("PAGE_TEST_SHOTS"); dir != "" {
			f, err := os.Create(dir + "/" + name + "-" + v.name + ".png")
			require.NoError(t, err)
			require.NoError(t, png.Encode(f, p.Screenshot()))
			require.NoError(t, f.Close())
		}
	}
	return l
}

// requireAllOfIt requires that the page shows the cluster of newFake.
func requireAllOfIt(t *testing.T, p *browsertest.Tab, server *httptest.Server) {
	t.Helper()
	l := requireLegible(t, p, "four-nodes")
	require.Equal(t, 16, l.Cards)
	require.Equal(t, 4, l.Nodes)
	require.Contains(t, l.Alerts, "<b>")
	require.Contains(t, l.Strip, "slots 0 to 1023: node 1; slots 1024 to 2047: node 2")
	require.Contains(t, l.Strip, "slots 9216 to 10239: no leader")
	for _, url := range p.Requests {
		require.True(t, strings.HasPrefix(url, server.URL), "the page requested %s", url)
	}
	require.Empty(t, p.Console)
}

// The page had 64 banners for a lost majority, all red, and its numbers became dashes.
func TestThePageIsLegibleAndSaysWhatALostMajorityMeans(t *testing.T) {
	f := newFake(t)
	p, server := open(t, f)
	requireAllOfIt(t, p, server)
	become := func(leader string, silent ...string) {
		state := func() overview.Overview {
			o := cluster(3, 64, silent...)
			for i := range o.Groups {
				o.Groups[i].Leader = leader
				for j := range o.Groups[i].Replicas { // without the faults of groups 5 and 6
					o.Groups[i].Replicas[j].Lag, o.Groups[i].Replicas[j].Failed = 0, ""
				}
			}
			return o
		}
		f.state.Store(&state)
	}
	become("1")
	waitFor(t, p, `document.querySelector("#mode").textContent === "live" && !document.querySelector(".alert")`)

	become("1", "2")
	waitFor(t, p, `document.querySelectorAll(".alert").length === 1 && document.querySelector(".alert.warning")`)
	waitFor(t, p, `document.querySelector("#mode").classList.contains("warm") &&
		!document.querySelector(".chip.bad, .alert.critical")`)
	require.Contains(t, requireLegible(t, p, "one-of-three").Alerts, "reads and writes continue, but one more "+
		"would stop them")

	become("", "2", "3")
	waitFor(t, p, `document.querySelectorAll(".alert").length === 1 && document.querySelector(".alert.critical")`)
	waitFor(t, p, `[...document.querySelectorAll(".rate")].every(e => /writes\/s \d+ s ago/.test(e.textContent))`)
	var text string
	p.Run(`document.body.innerText`, &text)
	require.NotContains(t, text, "– ")
	require.Contains(t, text, "at 100,000, 3 s ago", "what a silent replica had")
	require.Contains(t, text, "these figures are from 4 s ago")
	l := requireLegible(t, p, "two-of-three")
	require.Regexp(t, "No reads and no writes( through node 1)?: 2 of 3 nodes are silent", l.Alerts)
	require.Contains(t, l.Alerts, "Start node 2 or 3")
	require.Contains(t, l.Alerts, "sieved recover --id 1")

	server.Close()
	waitFor(t, p, `/Node 1, which serves this page, does not answer. What follows is from \d+/.test(
		document.querySelector("#alerts").textContent)`)
	require.Contains(t, requireLegible(t, p, "no-answer").Alerts, "No reads and no writes")
}
