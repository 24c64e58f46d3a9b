package browsertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The requests and complaints of a page, which tests of pages exclude, are noticed.
func TestRequestsAndComplaintsOfAPageAreRecorded(t *testing.T) {
	p := Open(t, Find(t), 800, 600, true)
	for _, c := range []struct{ claim, html, request, console string }{
		{"nothing", `<p>`, "", ""},
		{"a picture", `<img src="http://127.0.0.1:1/picture.png">`, "http://127.0.0.1:1/picture.png", "ERR_"},
		{"a file", `<link rel="stylesheet" href="no-such.css">`, "no-such.css", "ERR_FILE_NOT_FOUND"},
		{"what a policy forbids", `<meta http-equiv="Content-Security-Policy" content="default-src 'none'"><img src="http://127.0.0.1:1/picture.png">`, "", "Content Security Policy"},
		{"a complaint", `<script>console.warn("too dark: " + matchMedia("(prefers-color-scheme: dark)").matches)</script>`, "", "too dark: true"},
		{"an error", `<script>noSuchThing()</script>`, "", "noSuchThing is not defined"},
	} {
		p.Console, p.Requests = nil, nil
		page := filepath.Join(t.TempDir(), "page.html")
		require.NoError(t, os.WriteFile(page, []byte("<!DOCTYPE html><title>A page</title>"+c.html), 0o644))
		p.VisitFile(page)
		var title string
		p.Run("document.title", &title)
		require.Equal(t, "A page", title)
		requests, console := strings.Join(p.Requests, "\n"), strings.Join(p.Console, "\n")
		if c.request+c.console == "" {
			require.Empty(t, requests+console)
			continue
		}
		require.Contains(t, requests, c.request, c.claim)
		require.Contains(t, console, c.console, c.claim)
	}
}
