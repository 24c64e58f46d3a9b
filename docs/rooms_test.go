package docs_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewriteRooms = flag.Bool("rooms.rewrite", false, "correct the imports and the order of the table of rooms, and draw its picture anew")

// room is a row of the table of rooms in architecture.md.
type room struct {
	group    string
	label    string // the name, perhaps as a link
	contents string
	imports  []string // sorted
}

const (
	module       = "github.com/sievedb/sievedb/"
	architecture = "docs/architecture.md"
	beginRooms   = "<!-- rooms: begin -->"
	endRooms     = "<!-- rooms: end -->"
)

// groups returns the names of the groups in architecture.md, from the lowest on.
func groups(t *testing.T) (names []string) {
	section := between(t, read(t, architecture), "\n## The ladder\n", "\n## ")
	for _, m := range regexp.MustCompile(`(?m)^- \*\*(\w+)\*\*: `).FindAllStringSubmatch(section, -1) {
		names = append(names, m[1])
	}
	require.Greater(t, len(names), 5, "groups")
	slices.Reverse(names)
	return names
}

// rooms reads the table. Its columns are the group, the package (with or without a link), the contents, and the other
// rooms that it imports, without "internal/".
func rooms(t *testing.T) map[string]room {
	row := regexp.MustCompile(`^\| (\w+) \| (\[?([a-z/]+)\]?[^|]*) \| ([^|]+) \| ([a-z/, ]*)\|$`)
	all := map[string]room{}
	table := strings.TrimSpace(between(t, read(t, architecture), beginRooms, endRooms))
	for _, line := range strings.Split(table, "\n")[2:] {
		m := row.FindStringSubmatch(line)
		require.NotNil(t, m, "a row must be | group | [room](link) | contents | imports |: %s", line)
		r := room{group: m[1], label: m[2], contents: m[4]}
		for _, name := range strings.Split(m[5], ",") {
			if name = strings.TrimSpace(name); name != "" {
				r.imports = append(r.imports, fullName(name))
			}
		}
		slices.Sort(r.imports)
		require.NotContains(t, all, m[3], "two rows for one room")
		require.Contains(t, groups(t), r.group, "the group of %s", m[3])
		all[m[3]] = r
	}
	require.Greater(t, len(all), 10, "rows of the table of rooms")
	return all
}

// fullName returns the name of a room that the column of imports has without "internal/".
func fullName(short string) string {
	top, _, _ := strings.Cut(short, "/")
	if info, err := os.Stat(filepath.Join(root, "internal", top)); err == nil && info.IsDir() {
		return "internal/" + short
	}
	return short
}

// writeRooms writes the table with the imports that packages have, by groups from the highest on.
func writeRooms(t *testing.T, all map[string]room, packages map[string][]string) {
	order := groups(t)
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		higher := slices.Index(order, all[b].group) - slices.Index(order, all[a].group)
		return cmp.Or(higher, strings.Compare(a, b))
	})
	var table strings.Builder
	table.WriteString("\n\n| group | room | contents | imports |\n| --- | --- | --- | --- |\n")
	for _, name := range names {
		var short []string
		for _, below := range packages[name] {
			short = append(short, strings.TrimPrefix(below, "internal/"))
		}
		slices.Sort(short)
		imports := strings.Join(short, ", ")
		if imports != "" {
			imports += " "
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s|\n", all[name].group, all[name].label, all[name].contents, imports)
	}
	page := read(t, architecture)
	page = strings.Replace(page, between(t, page, beginRooms, endRooms), table.String()+"\n", 1)
	require.NoError(t, os.WriteFile(filepath.Join(root, architecture), []byte(page), 0o644))
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

// listedPackage is a package of the library's or of the commands' modules, with what it imports outside its tests.
type listedPackage struct {
	ImportPath       string
	Imports, GoFiles []string
	Module           moduleVersion
}

var listedPackages []listedPackage

// packages returns them. The go command lists them once for all tests.
func packages(t *testing.T) []listedPackage {
	if listedPackages == nil {
		args := []string{"-json=ImportPath,Imports,GoFiles,Module", "./...", "./testdata"} // ... does not match testdata
		for dir := range modules(t) {
			if strings.HasPrefix(dir, "cmd/") {
				args = append(args, "./"+dir+"/...")
			}
		}
		listedPackages = list[listedPackage](t, args...)
	}
	return listedPackages
}

// ofLibrary returns the import paths of the packages of the first module.
func ofLibrary(t *testing.T) (paths []string) {
	for _, p := range packages(t) {
		if p.Module.Path == library && p.ImportPath != module+"testdata" {
			paths = append(paths, p.ImportPath)
		}
	}
	return paths
}

// listed returns the rooms of the library's and the commands' modules, with the rooms that each
// imports outside its tests.
func listed(t *testing.T) map[string][]string {
	rooms := map[string][]string{}
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		name := roomOf(p.ImportPath)
		imports := rooms[name]
		for _, path := range p.Imports {
			if strings.HasPrefix(path+"/", module) && roomOf(path) != name {
				imports = append(imports, roomOf(path))
			}
		}
		slices.Sort(imports)
		rooms[name] = slices.Compact(imports)
	}
	return rooms
}

// Each room imports exactly the rooms in the table, all of them of its own group or of lower ones.
func TestRoomsImportWhatTheTableSays(t *testing.T) {
	all, packages, order := rooms(t), listed(t), groups(t)
	if *rewriteRooms {
		writeRooms(t, all, packages)
		all = rooms(t)
	}
	for name, r := range all {
		require.Contains(t, packages, name, "the table has a room without a package")
		require.ElementsMatch(t, r.imports, packages[name], "%s: the table of rooms differs from its imports; "+
			"go test ./docs -run TestRooms -rooms.rewrite corrects it", name)
		for _, below := range r.imports {
			require.Contains(t, all, below, "%s imports a package that is not in the table", name)
			require.LessOrEqual(t, slices.Index(order, all[below].group), slices.Index(order, r.group),
				"%s of the group %s imports %s of the higher group %s", name, r.group, below, all[below].group)
		}
	}
	for name := range packages {
		if !strings.HasPrefix(name, testRooms) {
			require.Contains(t, all, name, "the package has no row in the table of rooms")
		}
	}
}

// testRooms begins the names of the rooms that only tests import.
const testRooms = "internal/test/"

// A directory below internal is a group, and has the rooms of that group. Those of internal/test are named on the page.
func TestRoomsAreInTheDirectoryOfTheirGroup(t *testing.T) {
	all := rooms(t)
	for name, r := range all {
		if below, internal := strings.CutPrefix(name, "internal/"); internal {
			group, _, _ := strings.Cut(below, "/")
			require.Equal(t, r.group, group, "%s is in the directory of another group", name)
		}
	}
	entries, err := os.ReadDir(filepath.Join(root, "internal"))
	require.NoError(t, err)
	for _, e := range entries {
		require.True(t, e.IsDir(), "internal/%s belongs to no group", e.Name())
		require.Contains(t, append(groups(t), "test"), e.Name(), "internal/%s is not a group", e.Name())
	}
	section := between(t, read(t, architecture), "\n## The ladder\n", "\n## ")
	entries, err = os.ReadDir(filepath.Join(root, testRooms))
	require.NoError(t, err)
	for _, e := range entries {
		require.Regexp(t, `\b`+e.Name()+`\b`, section, "%s%s is not on the page", testRooms, e.Name())
	}
}

// Only tests, and rooms that only tests import, import internal/test. This holds in the nested modules too.
func TestRoomsForTestsAreImportedByTestsOnly(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTest() || strings.HasPrefix(f.name, testRooms) {
			continue
		}
		for _, i := range f.Imports {
			require.False(t, strings.HasPrefix(i.Path.Value, `"`+module+testRooms), "%s imports %s", f.name, i.Path.Value)
		}
	}
}

// What the cluster ships uses only what is public of the library, so it could be a repository of its own.
func TestTheClusterUsesWhatIsPublic(t *testing.T) {
	format := `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`
	shipped := 0
	list := run(t, filepath.Join(root, "cluster"), nil, "go", "list", "-deps", "-f", format, ".", "./cmd/sieved")
	for line := range strings.Lines(list) {
		name, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(name+"/", module+"cluster/") {
			shipped++
			require.NotContains(t, " "+imports, " "+module+"internal/", name)
		}
	}
	require.Greater(t, shipped, 10)
}

// Only internal/base/errors imports cockroachdb/errors, and its importers do not import package errors too.
func TestErrorsComeFromOneRoom(t *testing.T) {
	users := 0
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if name == "internal/base/errors" {
			continue
		}
		require.False(t, slices.ContainsFunc(p.Imports, func(path string) bool {
			return strings.HasPrefix(path+"/", "github.com/cockroachdb/errors/")
		}), name)
		if slices.Contains(p.Imports, module+"internal/base/errors") {
			users++
			require.NotContains(t, p.Imports, "errors", name)
		}
	}
	require.Greater(t, users, 8)
}

// A program that opens a store links neither a network nor a reporter of crashes: they would be half of a small
// program. The whole of cockroachdb/errors imports both, so internal/base/errors uses two of its packages.
func TestStoresDoNotLinkTheNetwork(t *testing.T) {
	packages := []string{"./db", "./sstable", "./backup", "./metrics", "./report", "./vfs"}
	heavy := regexp.MustCompile(`^(net|net/http|crypto/tls|os/exec|text/template|html/template|testing|github\.com/getsentry/.*|` +
		`github\.com/cockroachdb/errors)$`)
	systems := []string{"linux", "darwin", "windows", "freebsd"}
	if testing.Short() {
		systems = systems[:1]
	}
	for _, system := range systems {
		env := []string{"GOOS=" + system, "GOARCH=amd64", "CGO_ENABLED=0"}
		listed := strings.Fields(run(t, root, env, "go", append([]string{"list", "-deps"}, packages...)...))
		require.Contains(t, listed, module+"internal/base/errors")
		for _, path := range listed {
			require.False(t, heavy.MatchString(path), "%s: a program that opens a store links %s", system, path)
		}
	}
}

// large are the packages of the library that may have more lines than maxRoom, in hundreds.
var large = map[string]exemption{
	"db":      {70, "the public API, options and assembly, with the write path's last parts"},
	"sstable": {76, "a table's reader and writer share its layout"},
}

// maxRoom is how many hundred lines a package has at most, without tests, so that one person can know it.
const maxRoom = 60

func TestNoRoomIsTooLarge(t *testing.T) {
	lines := map[string]int{} // by folder
	for _, f := range filesThatEnd(t, ".go") {
		if !strings.HasSuffix(f.name, "_test.go") {
			lines[path.Dir(f.name)] += strings.Count(f.text, "\n")
		}
	}
	rooms, used := 0, map[string]bool{}
	for _, p := range ofLibrary(t) {
		name := path.Clean(strings.TrimPrefix(p+"/", module))
		wrong := exceeds(name, (lines[name]+99)/100, maxRoom, large, used)
		require.Empty(t, wrong, "%s has %d lines, without tests; in hundreds: %s", name, lines[name], wrong)
		rooms++
	}
	require.Len(t, used, len(large))
	require.Greater(t, rooms, 20)
}
