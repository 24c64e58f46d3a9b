package docs_test

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var simulate = flag.Bool("release", false, "run TestARelease, which takes minutes: it builds all commands")

const (
	library = "github.com/sievedb/sievedb"
	// firstVersion is the version that TestARelease releases.
	firstVersion = "v0.1.0"
)

// The module's path is also that of a package that needs no other module, so go get of it leaves out the checksums of
// those that package db needs, and the quickstart does not build.
func TestPagesSayHowToGetTheLibrary(t *testing.T) {
	for _, page := range []string{"README.md", "docs/getting-started.md", "doc.go"} {
		for line := range strings.Lines(read(t, page)) {
			if _, what, ok := strings.Cut(line, "go get "); ok {
				require.Equal(t, library+"/db", strings.TrimSpace(what), page)
			}
		}
		require.Contains(t, read(t, page), "go get "+library+"/db\n", page)
	}
}

var moduleRow = regexp.MustCompile("`([a-z0-9/]+)`")

// The table lacked modules, and its commands failed in others.
func TestReleasingListsEveryModule(t *testing.T) {
	page := read(t, "docs/releasing.md")
	all := modules(t)
	listed := map[string]string{} // by folder: what the last column says
	for line := range strings.Lines(between(t, page, "| --- | --- | --- |\n", "\n\n") + "\n") {
		columns := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		require.Len(t, columns, 3, line)
		for _, name := range moduleRow.FindAllStringSubmatch(columns[0], -1) {
			require.NotContains(t, listed, name[1])
			listed[name[1]] = strings.TrimSpace(columns[2])
		}
	}
	delete(all, ".")
	var released []string
	for dir := range all {
		require.Contains(t, listed, dir, "docs/releasing.md has no row for this module")
		if strings.HasPrefix(listed[dir], "yes") {
			released = append(released, dir)
		} else {
			require.True(t, strings.HasPrefix(listed[dir], "no"), "%s: %s", dir, listed[dir])
		}
	}
	require.Len(t, listed, len(all), "docs/releasing.md has a row for a module that does not exist")
	slices.Sort(released)
	tags := run(t, root, nil, "sh", ".ci/release", "--tags", firstVersion)
	for i := range released {
		released[i] += "/" + firstVersion
	}
	require.Equal(t, released, strings.Fields(tags), ".ci/release prints the tags of these modules")
}

// run runs a command in a folder and returns its output.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	began := time.Now()
	defer func() { t.Logf("%s %s: %v", name, strings.Join(args, " "), time.Since(began).Round(time.Second)) }()
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	require.NoError(t, cmd.Run(), "%s %s: %s", name, strings.Join(args, " "), &problems)
	return out.String()
}

// checkout copies what is, or would be, committed.
func checkout(t *testing.T) string {
	to := t.TempDir()
	for name := range strings.SplitSeq(run(t, root, nil, "git", "ls-files", "-coz", "--exclude-standard"), "\x00") {
		from := filepath.Join(root, name)
		info, err := os.Lstat(from)
		if name == "" || errors.Is(err, fs.ErrNotExist) || !info.Mode().IsRegular() {
			continue
		}
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(to, name), content, info.Mode().Perm()))
	}
	return to
}

// filesOf returns the names of all files in a folder.
func filesOf(t *testing.T, dir string) (names []string) {
	require.NoError(t, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	}))
	return names
}

// modulesOfOthers returns a module cache with links to that of the user, without the modules of the library: no such
// version of them exists. To unpack others once more takes a minute.
func modulesOfOthers(t *testing.T) string {
	from, to := strings.TrimSpace(run(t, root, nil, "go", "env", "GOMODCACHE")), t.TempDir()
	split := []string{"cache", "cache/download", "cache/download/github.com", "github.com"}
	var link func(dir string)
	link = func(dir string) {
		entries, _ := os.ReadDir(filepath.Join(from, dir)) // what is missing is downloaded
		require.NoError(t, os.MkdirAll(filepath.Join(to, dir), 0o755))
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			switch {
			case slices.Contains(split, name):
				link(name)
			case e.IsDir() && e.Name() != "sievedb" && e.Name() != "vcs":
				_ = os.Symlink(filepath.Join(from, name), filepath.Join(to, name))
			}
		}
	}
	link(".")
	return to
}

// publish puts the module in a folder of a checkout into a folder that can be GOPROXY, as the go command makes it of
// a tag: without the modules in it, and with the license of the repository.
func publish(t *testing.T, proxy, tree, dir string) {
	at, module := filepath.Join(tree, dir), path.Join(library, dir)
	to := filepath.Join(proxy, module, "@v")
	require.NoError(t, os.MkdirAll(to, 0o755))
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	add := func(name, from string) {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		f, err := w.Create(module + "@" + firstVersion + "/" + name)
		require.NoError(t, err)
		_, err = f.Write(content)
		require.NoError(t, err)
	}
	require.NoError(t, filepath.WalkDir(at, func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != at {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(at, name)
		require.NoError(t, err)
		add(filepath.ToSlash(rel), name)
		return nil
	}))
	if _, err := os.Stat(filepath.Join(at, "LICENSE")); err != nil {
		add("LICENSE", filepath.Join(tree, "LICENSE"))
	}
	require.NoError(t, w.Close())
	goMod, err := os.ReadFile(filepath.Join(at, "go.mod"))
	require.NoError(t, err)
	for name, content := range map[string][]byte{
		"list": []byte(firstVersion + "\n"), firstVersion + ".mod": goMod, firstVersion + ".zip": packed.Bytes(),
		firstVersion + ".info": fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, firstVersion),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(to, name), content, 0o644))
	}
}

var moduleFile = regexp.MustCompile(`^/(.+)/@v/(v.+)\.(info|mod|zip)$`)

// serveModules returns the address of a module proxy with the modules in a folder and, from the module cache or the
// proxies of the environment, those of others.
func serveModules(t *testing.T, proxy string) string {
	cache := filepath.Join(strings.TrimSpace(run(t, root, nil, "go", "env", "GOMODCACHE")), "cache", "download")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dir := cache
		if r.URL.Path == "/"+library || strings.HasPrefix(r.URL.Path, "/"+library+"/") {
			dir = proxy
		}
		file := filepath.Join(dir, filepath.FromSlash(path.Clean(r.URL.Path)))
		m := moduleFile.FindStringSubmatch(r.URL.Path)
		if _, err := os.Stat(file); err != nil && dir == cache && m != nil {
			download := exec.Command("go", "mod", "download", decodeUpper(m[1])+"@"+decodeUpper(m[2]))
			download.Dir = filepath.Join(root, "docs")
			download.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
			_ = download.Run() // if it fails, there is no such file
		}
		http.ServeFile(w, r, file)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// decodeUpper is the inverse of how the go command writes upper-case letters in paths: "!a" is "A".
func decodeUpper(s string) string {
	for {
		before, after, ok := strings.Cut(s, "!")
		if !ok || after == "" {
			return s
		}
		s = before + strings.ToUpper(after[:1]) + after[1:]
	}
}

// TestARelease follows docs/releasing.md with the modules of this checkout as v0.1.0, and then uses them as the pages
// tell users to. A release could not be made by following the page, and no test tried what users do first.
func TestARelease(t *testing.T) {
	if !*simulate {
		t.Skip("it takes minutes: go test ./docs -run TestARelease -release")
	}
	tree, proxy := checkout(t), t.TempDir()
	publish(t, proxy, tree, "")
	cache := modulesOfOthers(t)
	env := []string{
		"GOPROXY=" + serveModules(t, proxy), "GOSUMDB=off", "GOMODCACHE=" + cache, "GOBIN=" + t.TempDir(),
		"GOFLAGS=-trimpath -modcacherw", "GOPRIVATE=", "GONOPROXY=", "GOWORK=",
	}
	foreign := map[string][]byte{}
	for _, dir := range []string{"compat/conformance", compareServers} {
		text, err := os.ReadFile(filepath.Join(tree, dir, "go.mod"))
		require.NoError(t, err)
		foreign[dir] = text
	}
	before := filesOf(t, tree)
	t.Log(run(t, tree, env, ".ci/release", firstVersion))
	require.Equal(t, before, filesOf(t, tree), "a release adds no file, such as a program")
	for dir, before := range foreign {
		after, err := os.ReadFile(filepath.Join(tree, dir, "go.mod"))
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "%s requires other versions", dir)
	}
	for tag := range strings.FieldsSeq(run(t, tree, env, ".ci/release", "--tags", firstVersion)) {
		publish(t, proxy, tree, strings.TrimSuffix(tag, "/"+firstVersion))
	}
	require.Contains(t, run(t, t.TempDir(), env, "go", "list", "-m", library+"@"+firstVersion), firstVersion)
	env = append(env, "GOWORK=off")
	t.Run("the quickstart", func(t *testing.T) { useQuickstart(t, env) })
	t.Run("the commands", func(t *testing.T) { installCommands(t, env) })
	t.Run("instead of goleveldb", func(t *testing.T) { replaceGoleveldb(t, env) })
	t.Run("nested modules", func(t *testing.T) { useNestedModules(t, env) })
}

// userProgram makes a module with a program, and returns its folder.
func userProgram(t *testing.T, env []string, source string) string {
	dir := t.TempDir()
	run(t, dir, env, "go", "mod", "init", "example.com/app")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644))
	return dir
}

func useQuickstart(t *testing.T, env []string) {
	page := read(t, "README.md")
	dir := userProgram(t, env, "package main\n"+between(t, page, "```go\npackage main\n", "```"))
	run(t, dir, env, "go", "get", library+"/db")
	require.Equal(t, between(t, page, "It prints\n\n```text\n", "```"), run(t, dir, env, "go", "run", "."))
	run(t, dir, env, "go", "mod", "tidy")
	run(t, dir, env, "go", "mod", "verify")
}

func installCommands(t *testing.T, env []string) {
	bin := strings.TrimSpace(run(t, t.TempDir(), env, "go", "env", "GOBIN"))
	for _, command := range []string{"cmd/sievedb", "cmd/dbbench", "cmd/peerbench", "cluster/cmd/sieved"} {
		run(t, t.TempDir(), env, "go", "install", library+"/"+command+"@latest")
		require.FileExists(t, filepath.Join(bin, path.Base(command)))
	}
	require.Contains(t, run(t, t.TempDir(), env, filepath.Join(bin, "sievedb"), "--version"), firstVersion)
	require.Contains(t, run(t, t.TempDir(), env, filepath.Join(bin, "sievedb"), "help"), "sievedb")
}

// onGoleveldb is a program on goleveldb. It prints the result of a write.
//
//go:embed testdata/on-goleveldb.go.txt
var onGoleveldb string

func replaceGoleveldb(t *testing.T, env []string) {
	dir := userProgram(t, env, onGoleveldb)
	run(t, dir, env, "go", "mod", "edit", "-require=github.com/syndtr/goleveldb@v1.0.1-0.20220721030215-126854af5e6d")
	for _, page := range []string{"README.md", "docs/migration.md"} {
		commands := between(t, read(t, page), "\n    go mod edit -replace ", "\n\n")
		require.Contains(t, commands, "@VERSION\n    go mod tidy", page)
		target, _, _ := strings.Cut(commands, "VERSION")
		run(t, dir, env, "go", "mod", "edit", "-replace", target+firstVersion)
	}
	run(t, dir, env, "go", "mod", "tidy")
	require.Equal(t, "<nil>\n", run(t, dir, env, "go", "run", "."))
	require.Contains(t, strings.Fields(run(t, dir, env, "go", "list", "-deps", ".")), library+"/db", "goleveldb itself was used")
}

func useNestedModules(t *testing.T, env []string) {
	for module, use := range map[string]string{
		"metrics/prometheus": "prometheus.NewCollector", "backup/blob": "blob.New", "cluster": "cluster.Start",
	} {
		dir := userProgram(t, env, fmt.Sprintf("package main\n\nimport %q\n\nvar _ = %s\n\nfunc main() {}\n", library+"/"+module, use))
		run(t, dir, env, "go", "get", library+"/"+module)
		run(t, dir, env, "go", "build", "-o", os.DevNull, ".")
		run(t, dir, env, "go", "mod", "tidy")
	}
}
