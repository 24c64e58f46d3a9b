package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Strangers who connect to --metrics must not use up descriptors, nor keep others out.
func TestHTTPConnectionsAreBounded(t *testing.T) {
	arrived, answer := make(chan bool), make(chan bool)
	server := newHTTPServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- true
		<-answer
	}), 3)
	server.ReadHeaderTimeout, server.ReadTimeout = 0, 0 // another bound, which must not help here
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error)
	go func() { served <- server.Serve(ln) }()
	connect := func(send string) net.Conn {
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = io.WriteString(c, send)
		require.NoError(t, err)
		return c
	}
	working := connect("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-arrived
	var strangers []net.Conn
	for range 10 {
		strangers = append(strangers, connect("GET / HT"))
	}
	for _, c := range strangers[:8] {
		_, err := io.Copy(io.Discard, c) // it ends when the server closes it
		require.True(t, err == nil || !isTimeout(err))
	}
	last := connect("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	<-arrived
	answer <- true
	answer <- true
	text, err := io.ReadAll(last)
	require.NoError(t, err)
	require.Contains(t, string(text), "200 OK")
	head := make([]byte, len("HTTP/1.1 200 OK"))
	_, err = io.ReadFull(working, head)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200 OK", string(head), "an answer that is being made is not lost")
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

func TestHTTPHasTimeLimits(t *testing.T) {
	s := newHTTPServer(http.NotFoundHandler(), 1)
	require.Positive(t, min(s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout))
}

func TestFiguresAreServedUnderTheNamesOfTheNode(t *testing.T) {
	var s settings
	s.metricsHosts = []string{"metrics.example.com"}
	s.metrics = "figures.example.com:9121"
	s.options.Network.Advertise, s.options.Network.Listen = "node-1.example.com:7001", ":7001"
	own, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, []string{"metrics.example.com", own, "figures.example.com", "node-1.example.com"}, s.hosts())
}
