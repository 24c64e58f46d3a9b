package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/console"
	"github.com/sievedb/sievedb/db"
)

// serve says where the page is, and ends without an error when it is interrupted.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	ctx, cancel := context.WithCancel(context.Background())
	out := &cancelingWriter{cancel: cancel}
	var stderr bytes.Buffer
	require.Equal(t, exitOK, run(ctx, []string{"serve", "--address", "127.0.0.1:0", dir}, strings.NewReader(""), out, &stderr), stderr.String())
	require.Contains(t, out.String(), "http://127.0.0.1:")

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	require.Equal(t, exitFailed, run(context.Background(), []string{"serve", "--address", taken.Addr().String(), dir}, strings.NewReader(""), out, &stderr))
	require.True(t, strings.Contains(stderr.String(), "cannot listen"), stderr.String())
}

// The page of a directory with a damaged log is served, with a notice, and the exit code says it.
func TestServeOfADamagedLogIsAFault(t *testing.T) {
	dir := t.TempDir()
	store, err := db.Open(dir, nil)
	require.NoError(t, err)
	require.NoError(t, store.Put([]byte("key"), []byte("value"), nil))
	require.NoError(t, store.Put([]byte("key"), []byte("value"), nil))
	require.NoError(t, store.Close())
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	damage := func(change func(log []byte)) (code int, out, stderr string) {
		log, err := os.ReadFile(logs[0])
		require.NoError(t, err)
		change(log[:len(bytes.TrimRight(log, "\x00"))])
		require.NoError(t, os.WriteFile(logs[0], log, 0o600))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w, errs := &cancelingWriter{cancel: cancel}, &bytes.Buffer{}
		code = run(ctx, []string{"serve", "--address", "127.0.0.1:0", dir}, strings.NewReader(""), w, errs)
		return code, w.String(), errs.String()
	}
	code, out, stderr := damage(func(log []byte) { log[len(log)-1] ^= 1 })
	require.Equal(t, exitFaults, code)
	require.Contains(t, out, "http://127.0.0.1:")
	require.Regexp(t, "^sievedb: the page shows what can be read, but the database is damaged: .*\n$", stderr)

	code, out, stderr = damage(func(log []byte) { log[len(log)/2] ^= 1; log[len(log)-1] ^= 1 })
	require.Equal(t, exitFaults, code, "nothing can be shown")
	require.Empty(t, out)
	require.Contains(t, stderr, "corruption")
}

// --allow-remote alone permits addresses, and with names also requests under them.
func TestAllowRemoteTakesHostNames(t *testing.T) {
	for words, want := range map[string]console.ServeOptions{
		"--allow-remote":                               {AllowRemote: true},
		"--allow-remote=false":                         {},
		"--allow-remote=db.example.com,other":          {AllowRemote: true, Hosts: []string{"db.example.com", "other"}},
		"--allow-remote=a.example --allow-remote=b.ex": {AllowRemote: true, Hosts: []string{"a.example", "b.ex"}},
	} {
		var f serveFlags
		set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		f.add(set)
		require.NoError(t, set.Parse(append(strings.Fields(words), "dir")))
		require.Equal(t, []string{"dir"}, set.Args(), words)
		want.Address = console.DefaultAddress
		require.Equal(t, want, f.o, words)
	}
	for _, wrong := range []string{"http://a", "a:80", "a b", "a,,b", ""} {
		var stderr bytes.Buffer
		require.Equal(t, exitUsage, run(context.Background(), []string{"serve", "--allow-remote=" + wrong, "dir"}, strings.NewReader(""), io.Discard, &stderr))
		require.Contains(t, stderr.String(), "is no host name; want names without scheme and port")
	}
}

// serve uses --expiry, so values with a time to live are shown without that time.
func TestServeWithExpiry(t *testing.T) {
	dir := t.TempDir()
	o := &db.Options{}
	o.Expiry.Prefixes = [][]byte{[]byte("session:")}
	store, err := db.Open(dir, o)
	require.NoError(t, err)
	require.NoError(t, store.PutTTL([]byte("session:1"), []byte("value"), time.Hour, nil))
	require.NoError(t, store.Close())
	ctx, cancel := context.WithCancel(context.Background())
	out := &askingWriter{cancel: cancel, answer: make(chan string, 1)}
	var stderr bytes.Buffer
	args := []string{"serve", "--expiry", "session:", "--show-keys", "--address", "127.0.0.1:0", dir}
	require.Equal(t, exitOK, run(ctx, args, strings.NewReader(""), out, &stderr), stderr.String())
	require.Contains(t, <-out.answer, `"Value":{"Text":"value"`)
}

// askingWriter asks the page whose address is written for its keys, and then cancels a context.
type askingWriter struct {
	cancel func()
	answer chan string
}

func (w *askingWriter) Write(text []byte) (int, error) {
	page := regexp.MustCompile(`http://\S+`).FindString(string(text))
	go func() {
		defer w.cancel()
		answer, err := http.Post(page+"api/keys", "application/json", strings.NewReader("{}"))
		if err != nil {
			w.answer <- err.Error()
			return
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		w.answer <- fmt.Sprint(string(text), err)
	}()
	return len(text), nil
}

// cancelingWriter cancels a context when something is written.
type cancelingWriter struct {
	bytes.Buffer
	cancel func()
}

func (w *cancelingWriter) Write(text []byte) (int, error) {
	w.cancel()
	return w.Buffer.Write(text)
}
