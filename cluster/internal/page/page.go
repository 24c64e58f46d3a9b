// Package page is the web page about a cluster: its nodes, and its groups with their replicas. Each group that has
// a replica on the node has the console of its database below group/N/.
//
// The page shows no keys and values, changes nothing, and loads nothing from elsewhere. It answers only under the
// names of the machine that it is given, so that other web sites cannot read it by DNS rebinding. It does not
// authenticate anyone.
package page

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/node"
	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/console"
	"github.com/sievedb/sievedb/db"
)

// Source is what the page shows; *node.Node implements it.
type Source interface {
	Overview(ctx context.Context) overview.Overview
	// WithState calls f with the database of a local replica, which stays open until f returns.
	WithState(group kv.GroupID, f func(*db.DB) error) error
}

var _ Source = (*node.Node)(nil)

// maxBody bounds requests. Those of the console have a key at most.
const maxBody = 4 << 20

//go:embed assets
var assets embed.FS

// types are the types of the page's files. Those of the system may be wrong, and then a browser would not run the
// script.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// policy allows the page its own files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handler serves the page.
type handler struct {
	source Source
	hosts  []string
	look   func(ctx context.Context) overview.Overview

	mu       sync.Mutex
	consoles map[kv.GroupID]mounted
}

// mounted is the console of a database. A state that is replaced has another database.
type mounted struct {
	store *db.DB
	page  http.Handler
}

// Handler returns the handler of the page. hosts are further names under which it is requested, without ports.
func Handler(s Source, hosts ...string) http.Handler {
	return handlerOf(s, overview.Share(s.Overview).Get, hosts)
}

// handlerOf returns the handler of a page that shows what look returns.
func handlerOf(s Source, look func(ctx context.Context) overview.Overview, hosts []string) http.Handler {
	h := &handler{source: s, hosts: hosts, look: look, consoles: map[kv.GroupID]mounted{}}
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", typed(http.FileServerFS(files)))
	mux.HandleFunc("GET /api/cluster", h.serveOverview)
	mux.HandleFunc("GET /group/{group}/", h.serveConsole)
	mux.HandleFunc("POST /group/{group}/", h.serveConsole) // explanations, whose keys are in the body
	return h.guard(http.NewCrossOriginProtection().Handler(mux))
}

func typed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t := types[path.Ext(r.URL.Path)]; t != "" {
			w.Header().Set("Content-Type", t)
		}
		next.ServeHTTP(w, r)
	})
}

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
		if !KnowsHost(r.Host, h.hosts) {
			http.Error(w, "the page is not served under this host name; use the IP address or localhost", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// KnowsHost reports whether a Host is an IP address, localhost or one of hosts. A server that answers only these is
// safe from web sites that make their own name resolve to this machine (DNS rebinding).
func KnowsHost(host string, hosts []string) bool {
	name := host
	if before, _, err := net.SplitHostPort(host); err == nil {
		name = before
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return net.ParseIP(strings.Trim(name, "[]")) != nil || name == "localhost" ||
		slices.ContainsFunc(hosts, func(known string) bool { return strings.EqualFold(known, name) })
}

// serveOverview answers with an overview that all requests within some time share.
func (h *handler) serveOverview(w http.ResponseWriter, r *http.Request) {
	text, err := json.Marshal(h.look(r.Context()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // fails only if the page has gone
}

// serveConsole passes a request on to the console of a group's database. The state of a group may be replaced, and then
// waits for its users. So the request is read before the database is used, and the answer written after that: a
// client that is slow does not hold the database.
func (h *handler) serveConsole(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.ParseUint(r.PathValue("group"), 10, 32)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the request is too long, or was cut", http.StatusBadRequest)
		return
	}
	inner := r.Clone(r.Context())
	inner.Body = io.NopCloser(bytes.NewReader(body))
	answer := &buffered{head: http.Header{}, code: http.StatusOK}
	group := kv.GroupID(number)
	err = h.source.WithState(group, func(d *db.DB) error {
		prefix := fmt.Sprintf("/group/%d", group)
		http.StripPrefix(prefix, h.console(group, d)).ServeHTTP(answer, inner)
		return nil
	})
	if err != nil {
		http.Error(w, "this node has no working replica of the group", http.StatusNotFound)
		return
	}
	answer.send(w)
}

// console returns the console of a group's database.
func (h *handler) console(group kv.GroupID, d *db.DB) http.Handler {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.consoles[group]
	if m.store != d {
		m = mounted{d, console.Handler(d, &console.Options{Title: fmt.Sprintf("group %d", group), Hosts: h.hosts})}
		h.consoles[group] = m
	}
	return m.page
}

// buffered is an answer that is sent later.
type buffered struct {
	head http.Header
	code int
	done bool // WriteHeader was called
	body bytes.Buffer
}

// Header implements http.ResponseWriter.
func (b *buffered) Header() http.Header { return b.head }

// WriteHeader implements http.ResponseWriter.
func (b *buffered) WriteHeader(code int) {
	if !b.done {
		b.code, b.done = code, true
	}
}

// Write implements http.ResponseWriter.
func (b *buffered) Write(p []byte) (int, error) {
	b.done = true
	return b.body.Write(p)
}

func (b *buffered) send(w http.ResponseWriter) {
	for name, values := range b.head {
		w.Header()[name] = values
	}
	w.WriteHeader(b.code)
	_, _ = w.Write(b.body.Bytes()) // fails only if the client has gone
}
