package console

import (
	"context"
	"embed"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/metrics"
)

// Options say what the page shows and what it may change. The zero Options show no keys and change nothing.
type Options struct {
	// Title is the heading of the page. Default: the directory of the store.
	Title string
	// Hosts are further names under which the page is requested, without ports, such as the name of a reverse proxy.
	Hosts []string
	// ShowKeys lets the page show keys and values: those below a prefix, and the key ranges of tables in explanations.
	ShowKeys bool
	// WriteToken, if not empty, lets those who send it put and delete keys, flush and compact.
	WriteToken string
}

// minTokenLength keeps tokens from being guessed.
const minTokenLength = 16

//go:embed assets
var assets embed.FS

// handler serves the page of one store.
type handler struct {
	o       Options
	store   *db.DB
	opened  time.Time
	status  shared
	tables  shared
	curve   shared
	slow    shared
	seen    activity
	probing sync.Mutex // held while filters are probed

	// alone says that the store is open for this page only. Then the page may open its tables and hold a snapshot.
	alone bool
	found finding
	held  hold
}

// Handler returns a handler of the page about a store, for any path: mount it with http.StripPrefix under one that ends
// with a slash. Nil o means the zero Options. The store must stay open while requests are served; afterwards they are
// answered with an error, except that GET metrics has the figures that are still known.
//
// A WriteToken of less than 16 bytes is ignored, so that no request can change the store.
func Handler(store *db.DB, o *Options) http.Handler { return newHandler(store, o).routes() }

func newHandler(store *db.DB, o *Options) *handler {
	h := &handler{
		store: store, opened: time.Now(),
		status: shared{lasts: 250 * time.Millisecond, most: 3 * time.Second},
		tables: shared{lasts: time.Second, most: time.Minute}, curve: shared{lasts: time.Second, most: time.Minute},
		slow: shared{lasts: time.Second, most: recordSlow / 2},
	}
	if o != nil {
		h.o = *o
	}
	if h.o.Title == "" {
		h.o.Title = store.Dir()
	}
	if len(h.o.WriteToken) < minTokenLength {
		h.o.WriteToken = ""
	}
	return h
}

// routes returns the handler of all requests.
func (h *handler) routes() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", typed(http.FileServerFS(files)))
	mux.HandleFunc("GET /api/status", h.serveShared(&h.status, h.readStatus))
	mux.HandleFunc("GET /api/tables", h.serveShared(&h.tables, h.readTables))
	mux.HandleFunc("GET /api/plan", h.serveShared(&h.curve, h.plan))
	mux.HandleFunc("GET /api/slow", h.serveShared(&h.slow, h.readSlow))
	mux.HandleFunc("GET /metrics", h.serveMetrics)
	mux.HandleFunc("POST /api/explain", answer(h.explain))
	mux.HandleFunc("POST /api/filters", answer(h.probe))
	if h.alone {
		mux.HandleFunc("POST /api/hold", answer(h.hold))
	}
	if h.o.ShowKeys {
		mux.HandleFunc("POST /api/keys", answer(h.keys))
	}
	if h.o.WriteToken != "" {
		mux.HandleFunc("POST /api/write", answer(h.write))
	}
	return h.guard(http.NewCrossOriginProtection().Handler(mux))
}

// types are the types of the page's files. Those of the system may be wrong, and then a browser would
// not run the scripts.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// typed sets the type of the answer by the name of the file.
func typed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t := types[path.Ext(r.URL.Path)]; t != "" {
			w.Header().Set("Content-Type", t)
		}
		next.ServeHTTP(w, r)
	})
}

// policy allows the page its own files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard refuses requests under a name that is not expected, and sets the headers of all answers.
func (h *handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		if !h.knows(r.Host) {
			http.Error(w, "the page is not served under this host name; use the IP address, localhost, or a name of Options.Hosts", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 4<<20)
		next.ServeHTTP(w, r)
	})
}

// knows reports whether a Host is an address, localhost or a name of Options.Hosts.
func (h *handler) knows(host string) bool {
	name := host
	if before, _, err := net.SplitHostPort(host); err == nil {
		name = before
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return net.ParseIP(strings.Trim(name, "[]")) != nil || name == "localhost" ||
		slices.ContainsFunc(h.o.Hosts, func(known string) bool { return strings.EqualFold(known, name) })
}

// failure is an answer that says what is wrong with the request.
type failure struct {
	code int
	text string
}

func (f failure) Error() string { return f.text }

// answer makes a handler of a function that returns a value for JSON.
func answer[T any](f func(r *http.Request) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := f(r)
		if err != nil {
			refuse(w, err)
			return
		}
		text, err := json.Marshal(value)
		if err != nil {
			refuse(w, err)
			return
		}
		writeJSON(w, text)
	}
}

func writeJSON(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // fails only if the page has gone
}

// refuse writes an error as JSON.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch f, ok := err.(failure); {
	case ok:
		code = f.code
	case errors.Is(err, db.ErrTooLarge):
		code = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"Error": err.Error()})
}

// read decodes the body of a request.
func read(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more follows after the value")
		}
	}
	if err != nil {
		return failure{http.StatusBadRequest, "the request is not the expected JSON: " + err.Error()}
	}
	return nil
}

// restFactor bounds what making shared answers costs: an answer is used for at least so many times the
// time that it took. There are three of them, so that less than one percent of one processor makes them.
// The time is that of the clock, not of the processor: an answer that waited for a disk or a lock would
// be used for minutes. So shared.most bounds it.
const restFactor = 300

// shared is an answer that all requests within some time share.
type shared struct {
	lasts, most time.Duration // it is used for at least lasts, and at most most

	mu    sync.Mutex // guards the fields below, also while the answer is made
	until time.Time
	text  []byte
}

// serveShared answers with what make returned not long ago.
func (h *handler) serveShared(s *shared, make func(context.Context) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, err := s.get(func() (any, error) {
			// Others wait for the answer, so the end of this request does not end it.
			return make(context.WithoutCancel(r.Context()))
		})
		if err != nil {
			refuse(w, err)
			return
		}
		writeJSON(w, text)
	}
}

// size returns the size of the answer in bytes.
func (s *shared) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.text)
}

// drop makes the next request get a new answer.
func (s *shared) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
}

func (s *shared) get(make func() (any, error)) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := time.Now()
	if begin.Before(s.until) {
		return s.text, nil
	}
	value, err := make()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	s.text, s.until = text, now.Add(min(s.most, max(s.lasts, restFactor*now.Sub(begin))))
	return text, nil
}

// serveMetrics serves scrapes.
func (h *handler) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", metrics.TextType)
	_ = metrics.WriteText(w, metrics.Read(h.store, h.store.IsFollower())) // fails only if the client has gone
}
