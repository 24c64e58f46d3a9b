package docs_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// room is a row of the table of rooms in architecture.md.
type room struct {
	floor   int
	imports []string
}

const module = "github.com/sievedb/sievedb/"

// rooms reads the table. Its columns are the floor, the package (with or without a link), the
// contents, and the other rooms that it imports.
func rooms(t *testing.T) map[string]room {
	row := regexp.MustCompile(`(?m)^\| (\d+) \| \[?([a-z/]+)\]?[^|]*\| [^|]+\| ([a-z/, ]*)\|$`)
	all := map[string]room{}
	for _, m := range row.FindAllStringSubmatch(read(t, "docs/architecture.md"), -1) {
		floor, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		r := room{floor: floor}
		for _, name := range strings.Split(m[3], ",") {
			if name = strings.TrimSpace(name); name != "" {
				r.imports = append(r.imports, name)
			}
		}
		slices.Sort(r.imports)
		require.NotContains(t, all, m[2], "two rows for one room")
		all[m[2]] = r
	}
	require.Greater(t, len(all), 10, "rows of the table of rooms")
	return all
}

// roomOf returns the room that a package of this repository belongs to. A command and the packages
// below it are one room. The package at the root is listed under its name.
func roomOf(path string) string {
	if path+"/" == module {
		return "sievedb"
	}
	name := strings.TrimPrefix(path, module)
	if parts := strings.Split(name, "/"); len(parts) > 2 && parts[0] == "cmd" && parts[1] != "internal" {
		return parts[0] + "/" + parts[1]
	}
	return name
}

// listed returns the rooms of the library's and the commands' modules, with the rooms that each
// imports outside its tests.
func listed(t *testing.T) map[string][]string {
	args := []string{"list", "-json=ImportPath,Imports,GoFiles", "./...", "./testdata"} // ... does not match testdata
	for dir := range modules(t) {
		if strings.HasPrefix(dir, "cmd/") {
			args = append(args, "./"+dir+"/...")
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	packages := map[string][]string{}
	for d := json.NewDecoder(out); ; {
		var p struct {
			ImportPath       string
			Imports, GoFiles []string
		}
		if err := d.Decode(&p); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		if len(p.GoFiles) == 0 {
			continue
		}
		name := roomOf(p.ImportPath)
		imports := packages[name]
		for _, path := range p.Imports {
			if strings.HasPrefix(path+"/", module) && roomOf(path) != name {
				imports = append(imports, roomOf(path))
			}
		}
		slices.Sort(imports)
		packages[name] = slices.Compact(imports)
	}
	require.NoError(t, cmd.Wait())
	return packages
}

// Each room imports exactly the rooms in the table, all of them on lower floors.
func TestRoomsImportWhatTheTableSays(t *testing.T) {
	all := rooms(t)
	packages := listed(t)
	for name, r := range all {
		require.Contains(t, packages, name, "the table has a room without a package")
		imports := packages[name]
		require.ElementsMatch(t, r.imports, imports, "%s: the table of rooms differs from its imports", name)
		for _, below := range imports {
			require.Contains(t, all, below, "%s imports a package that is not in the table", name)
			require.Less(t, all[below].floor, r.floor, "%s imports %s", name, below)
		}
	}
	testOnly := testOnlyPackages(t)
	for name := range packages {
		_, isRoom := all[name]
		isTestOnly := slices.ContainsFunc(testOnly, func(p string) bool {
			return name == p || strings.HasPrefix(name, p+"/")
		})
		require.True(t, isRoom || isTestOnly,
			"%s is neither in the table of rooms nor among the packages that only tests import", name)
	}
}

// testOnlyPackages returns the packages that only tests import, according to architecture.md.
func testOnlyPackages(t *testing.T) []string {
	text := between(t, read(t, "docs/architecture.md"), "Only tests import", "\n\n")
	return regexp.MustCompile(`internal/[a-z/]+`).FindAllString(text, -1)
}

func TestNoRoomImportsTestOnlyPackages(t *testing.T) {
	testOnly := testOnlyPackages(t)
	require.NotEmpty(t, testOnly)
	packages := listed(t)
	for name := range rooms(t) {
		for _, below := range packages[name] {
			for _, p := range testOnly {
				require.False(t, below == p || strings.HasPrefix(below, p+"/"), "%s imports %s", name, below)
			}
		}
	}
}

// Only internal/base/errors imports cockroachdb/errors, and its importers do not import package errors too.
func TestErrorsComeFromOneRoom(t *testing.T) {
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...", "./cmd/sievedb/...")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	users := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], module)
		if name == "internal/base/errors" {
			continue
		}
		require.False(t, slices.ContainsFunc(fields[1:], func(path string) bool {
			return strings.HasPrefix(path+"/", "github.com/cockroachdb/errors/")
		}), name)
		if slices.Contains(fields[1:], module+"internal/base/errors") {
			users++
			require.NotContains(t, fields[1:], "errors", name)
		}
	}
	require.Greater(t, users, 8)
}

// A program that opens a store links neither a network nor a reporter of crashes: they would be half of a small
// program. The whole of cockroachdb/errors imports both, so internal/base/errors uses two of its packages.
func TestStoresDoNotLinkTheNetwork(t *testing.T) {
	packages := []string{"./db", "./sstable", "./backup", "./metrics", "./report", "./resources", "./vfs"}
	heavy := regexp.MustCompile(`^(net|net/http|crypto/tls|os/exec|text/template|html/template|testing|github\.com/getsentry/.*|` +
		`github\.com/cockroachdb/errors)$`)
	for _, system := range []string{"linux", "darwin", "windows", "freebsd"} {
		cmd := exec.Command("go", append([]string{"list", "-deps", "-f", "{{.ImportPath}}"}, packages...)...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
		out, err := cmd.Output()
		require.NoError(t, err)
		listed := strings.Fields(string(out))
		require.Contains(t, listed, module+"internal/base/errors")
		for _, path := range listed {
			require.False(t, heavy.MatchString(path), "%s: a program that opens a store links %s", system, path)
		}
	}
}

// A package has at most 8,200 lines without tests, so that one person can know it. The write path of db fills most of
// the limit, and is to become a package of its own.
func TestNoRoomIsTooLarge(t *testing.T) {
	files := `{{$dir := .Dir}}{{.ImportPath}}{{range .GoFiles}} {{$dir}}/{{.}}{{end}}` +
		`{{range .IgnoredGoFiles}} {{$dir}}/{{.}}{{end}}`
	cmd := exec.Command("go", "list", "-f", files, "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(t, err)
	rooms := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		lines := 0
		for _, name := range fields[1:] {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			lines += strings.Count(string(text), "\n")
		}
		require.LessOrEqual(t, lines, 8200, fields[0])
		rooms++
	}
	require.Greater(t, rooms, 20)
}
