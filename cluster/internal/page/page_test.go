package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/node"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/browsertest"
	"github.com/sievedb/sievedb/vfs"
)

// fakeSource is a cluster of four nodes, of which one is down.
type fakeSource struct {
	asked atomic.Int64
	store *db.DB // of group 1; replaced by tests
	users atomic.Int64
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

func (f *fakeSource) Overview(context.Context) node.Overview {
	asked := uint64(f.asked.Add(1))
	o := node.Overview{
		Node: "1", Cluster: "c0ffee", Replicas: 3, At: time.Unix(1e9, 0).Add(time.Duration(asked) * time.Second),
		Problems: []string{"node 4 was not heard of for 9s <b>"},
	}
	for _, id := range []string{"1", "2", "3", "4"} {
		n := node.NodeOverview{ID: id, Addr: "node-" + id + ".example.internal:7001", Zone: "rack-" + id, State: "up", Answered: true, Leads: 4}
		if id == "4" {
			n.State, n.Answered, n.Silent, n.Leads = "down", false, 9000, 0
		}
		o.Nodes = append(o.Nodes, n)
	}
	for group := range kv.GroupID(16) {
		leader := 1 + int(group)%3
		g := node.GroupOverview{Group: group, Leader: fmt.Sprint(leader), Term: 7, Commit: 100000 + asked*uint64(40+group), Local: group == 1}
		g.First, g.Last = slot.Range(group, 16)
		if group == 9 {
			g.Leader = ""
		}
		for i := range 3 {
			id := 1 + (leader-1+i)%4
			r := node.ReplicaOverview{Node: fmt.Sprint(id), Voter: id != 4, Known: id != 4}
			switch {
			case group == 5 && i == 1:
				r.Lag = 12345
			case group == 6 && i == 1:
				r.Failed = "the checksum of a block is wrong"
			}
			g.Replicas = append(g.Replicas, r)
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
	require.LessOrEqual(t, f.asked.Load(), 1+int64(time.Since(begin)/atLeast)+1)
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
const lookScript = `(() => {
const box = e => e.getBoundingClientRect(), seen = e => box(e).width > 0 && box(e).height > 0;
const say = e => e.tagName + "." + (e.getAttribute("class") ?? "") + " " + e.textContent.trim().slice(0, 50);
const all = q => [...document.querySelectorAll(q)].filter(seen), faint = [];
const parse = c => (c.match(/[\d.]+/g) ?? []).map(Number);
const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
const back = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length == 3 || c[3] > .99) return c; } return [255, 255, 255]; };
for (const e of all("body *")) {
  const text = [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim()), dot = e.classList.contains("dot");
  if (e.closest("svg, .skip") || !text && !dot) continue;
  const style = getComputedStyle(e), a = light(parse(dot ? style.backgroundColor : style.color)), b = light(back(dot ? e.parentElement : e));
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < (dot ? 3 : 4.5)) faint.push(ratio.toFixed(2) + " " + say(e));
}
return {Width: document.documentElement.scrollWidth, Inner: innerWidth, Faint: faint,
  Outside: all("body *").filter(e => !e.closest(".skip, svg *") && (box(e).right > innerWidth + 1 || box(e).left < -1)).map(say),
  Unnamed: all("button, a, [role=img]").filter(e => !(e.getAttribute("aria-label") ?? e.textContent).trim()).map(say),
  Headings: all("h1, h2, h3").map(h => Number(h.tagName[1])), Cards: all(".groups > li").length, Nodes: all(".nodes > li").length,
  Bold: document.querySelectorAll("b").length, Strip: document.querySelector("#strip svg").getAttribute("aria-label"), Alerts: document.querySelector("#alerts").textContent};
})()`

func TestThePageIsLegibleEverywhere(t *testing.T) {
	server := serve(t, newFake(t))
	p := browsertest.Open(t, browsertest.Find(t), 1280, 1000, false)
	p.Visit(server.URL + "/")
	var drawn bool
	p.Run(`(async () => { for (let i = 0; i < 1000; i++) { if (document.querySelector(".chart .line")) return true; await new Promise(r => setTimeout(r, 20)); } return false; })()`, &drawn)
	require.True(t, drawn, "the page draws itself; complaints: %v", p.Console)
	for _, c := range []struct {
		name          string
		width, height int
		dark          bool
	}{{"light-screen", 1280, 1000, false}, {"dark-screen", 1280, 1000, true}, {"dark-phone", 390, 844, true}, {"light-phone", 320, 700, false}} {
		p.SetDark(c.dark)
		p.Resize(c.width, c.height)
		var l look
		p.Run(lookScript, &l)
		require.LessOrEqual(t, l.Width, l.Inner, "%s: the page scrolls sideways", c.name)
		require.Empty(t, l.Outside, "%s: outside of the window", c.name)
		require.Empty(t, l.Unnamed, "%s: without a name", c.name)
		require.Empty(t, l.Faint, "%s: low contrast", c.name)
		require.Equal(t, 16, l.Cards)
		require.Equal(t, 4, l.Nodes)
		require.Zero(t, l.Bold)
		require.Contains(t, l.Alerts, "<b>")
		require.Contains(t, l.Strip, "slots 0 to 1023: node 1; slots 1024 to 2047: node 2")
		require.Contains(t, l.Strip, "slots 9216 to 10239: no leader")
		for i, h := range l.Headings {
			require.True(t, i == 0 && h == 1 || i > 0 && h <= l.Headings[i-1]+1, "%s: headings %v", c.name, l.Headings)
		}
		if dir := os.Getenv("PAGE_TEST_SHOTS"); dir != "" {
			f, err := os.Create(dir + "/" + c.name + ".png")
			require.NoError(t, err)
			require.NoError(t, png.Encode(f, p.Screenshot()))
			require.NoError(t, f.Close())
		}
	}
	for _, url := range p.Requests {
		require.True(t, strings.HasPrefix(url, server.URL), "the page requested %s", url)
	}
	require.Empty(t, p.Console)
}
