package docs_test

import (
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// moduleVersion is a module in the output of go mod edit -json and go work edit -json.
type moduleVersion struct{ Path, Version string }

// replacement is a replace directive.
type replacement struct{ Old, New moduleVersion }

// goMod has the parts of a go.mod that these tests read.
type goMod struct {
	Module  moduleVersion
	Go      string
	Require []moduleVersion
	Replace []replacement
}

// edit runs a go command that prints a file as JSON, and decodes its output into to.
func edit(t *testing.T, to any, args ...string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(run(t, root, nil, "go", args...)), to))
}

// readModules has the go.mod of each module of the repository, by its folder.
var readModules = map[string]goMod{}

// modules returns a copy of readModules, which it fills once.
func modules(t *testing.T) map[string]goMod {
	for _, f := range filesThatEnd(t, "go.mod") {
		if _, done := readModules[path.Dir(f.name)]; !done && path.Base(f.name) == "go.mod" {
			var m goMod
			edit(t, &m, "mod", "edit", "-json", f.name)
			readModules[path.Dir(f.name)] = m
		}
	}
	all := maps.Clone(readModules)
	require.Contains(t, all, ".")
	require.Greater(t, len(all), 1, "nested modules")
	return all
}

// The go command refuses to install a command at a version if its go.mod has a replace directive.
func TestNoModuleHasAReplaceDirective(t *testing.T) {
	for dir, m := range modules(t) {
		require.Empty(t, m.Replace, "%s/go.mod: put replace directives into go.work", dir)
	}
}

// README says Go 1.25, and go.work said 1.26, so that an older go command refused the checkout.
func TestModulesAreForTheGoVersionOfTheReadme(t *testing.T) {
	require.Contains(t, read(t, "README.md"), "needs Go 1.25 or later")
	for dir, m := range modules(t) {
		want := "1.25.0"
		if dir == compareServers { // etcd's client needs it
			want = "1.26.0"
		}
		require.Equal(t, want, m.Go, "%s/go.mod", dir)
	}
	for _, dir := range []string{".", standIn, s3Test} {
		var work struct{ Go string }
		edit(t, &work, "work", "edit", "-json", path.Join(dir, "go.work"))
		require.Equal(t, "1.25.0", work.Go, "%s/go.work", dir)
	}
}

var neededGo = regexp.MustCompile(`(\w+)\s+needs?\s+(Go\s+1\.\d+)`)

// Several pages say which version SieveDB needs. Only linters and etcd's client need another one.
func TestPagesSayTheSameGoVersion(t *testing.T) {
	found := 0
	for _, f := range filesThatEnd(t, ".md") {
		for _, m := range neededGo.FindAllStringSubmatch(f.text, -1) {
			want := "Go 1.25"
			if slices.Contains([]string{"linters", "client"}, m[1]) {
				want = "Go 1.26"
			}
			require.Equal(t, want, strings.Join(strings.Fields(m[2]), " "), "%s: %s", f.name, m[0])
			found++
		}
	}
	require.Greater(t, found, 4)
}

// standIn is the module that has goleveldb's path. It is in a workspace of its own, because other modules
// need goleveldb.
const standIn = "compat/goleveldb"

// s3Test is the module whose test needs Amazon's SDK. It is in a workspace of its own, because no other
// module needs that.
const s3Test = "backup/blob/s3test"

// compareServers is the module that measures sieved next to etcd. It is in a workspace of its own, because only it
// needs etcd's client.
const compareServers = "cluster/internal/compare"

// go.work lists every module but these three, and its replace directive gives the nested modules the root module of
// this checkout. Without that directive, the go command looks for the required version on the network.
func TestWorkspaceListsEveryModule(t *testing.T) {
	all := modules(t)
	require.Equal(t, "github.com/syndtr/goleveldb", all[standIn].Module.Path)
	delete(all, standIn)
	require.Contains(t, all, s3Test)
	delete(all, s3Test)
	require.Contains(t, all, compareServers)
	delete(all, compareServers)
	var work struct {
		Use     []struct{ DiskPath string }
		Replace []replacement
	}
	edit(t, &work, "work", "edit", "-json")
	var used []string
	for _, u := range work.Use {
		used = append(used, path.Clean(u.DiskPath))
	}
	var replaced []replacement
	for dir, m := range all {
		require.Contains(t, used, dir, "go.work does not list this module")
		for _, r := range m.Require {
			want := replacement{Old: r, New: moduleVersion{Path: "./"}}
			if r.Path == all["."].Module.Path && !slices.Contains(replaced, want) {
				replaced = append(replaced, want)
			}
		}
	}
	require.Len(t, used, len(all), "go.work lists a folder that has no go.mod")
	require.Len(t, replaced, 1, "nested modules must require one version of the root module")
	require.Equal(t, replaced, work.Replace, "go.work must replace the version that nested modules require")
}
