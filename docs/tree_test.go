package docs_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// file is a file of the repository. Its name is from the root, with slashes.
type file struct{ name, text string }

// goFile is a Go file of the repository with its syntax, comments included.
type goFile struct {
	file
	*ast.File
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// readTree reads the repository once for all tests, but for folders whose names begin with a dot.
var readTree = sync.OnceValues(func() (files []file, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != root {
			return fs.SkipDir
		}
		if kind := filepath.Ext(name); err != nil || d.IsDir() || kind != ".go" && kind != ".md" && kind != ".mod" {
			return err
		}
		text, err := os.ReadFile(name)
		rel := strings.TrimPrefix(filepath.ToSlash(name), root+"/")
		files = append(files, file{rel, strings.ReplaceAll(string(text), "\r\n", "\n")})
		return err
	})
	return files, err
})

// positions has those of the files of parseTree.
var positions = token.NewFileSet()

var parseTree = sync.OnceValues(func() (parsed []goFile, err error) {
	files, err := readTree()
	for _, f := range files {
		if err == nil && strings.HasSuffix(f.name, ".go") {
			var syntax *ast.File
			syntax, err = parser.ParseFile(positions, f.name, f.text, parser.ParseComments|parser.SkipObjectResolution)
			parsed = append(parsed, goFile{f, syntax})
		}
	}
	return parsed, err
})

// filesThatEnd returns the files of the repository whose names have this end: .go, .md or .mod.
func filesThatEnd(t *testing.T, end string) (found []file) {
	files, err := readTree()
	require.NoError(t, err)
	for _, f := range files {
		if strings.HasSuffix(f.name, end) {
			found = append(found, f)
		}
	}
	return found
}

// goFiles returns all Go files of the repository.
func goFiles(t *testing.T) []goFile {
	files, err := parseTree()
	require.NoError(t, err)
	require.Greater(t, len(files), 500, "Go files of the repository")
	return files
}

// list returns what go list prints as JSON for these arguments, which choose the fields.
func list[T any](t *testing.T, args ...string) (all []T) {
	t.Helper()
	text := run(t, root, nil, "go", append([]string{"list"}, args...)...)
	for decoder := json.NewDecoder(bytes.NewReader([]byte(text))); ; {
		var one T
		err := decoder.Decode(&one)
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		all = append(all, one)
	}
}
