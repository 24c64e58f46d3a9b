package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
