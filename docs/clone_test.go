package docs_test

import (
	"fmt"
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// nextToClone makes a module with a program in a folder next to a link to this checkout, named sievedb.
func nextToClone(t *testing.T, source string) string {
	dir := t.TempDir()
	checkout, err := filepath.Abs(root)
	require.NoError(t, err)
	if err := os.Symlink(checkout, filepath.Join(dir, "sievedb")); err != nil {
		t.Skipf("no symbolic links: %v", err)
	}
	tour := filepath.Join(dir, "tour")
	require.NoError(t, os.Mkdir(tour, 0o755))
	run(t, tour, ownWorkspace, "go", "mod", "init", "tour")
	require.NoError(t, os.WriteFile(filepath.Join(tour, "main.go"), []byte(source), 0o644))
	return tour
}

// ownWorkspace is the environment of a user's module. What the checkout requires is in the module cache, or is
// downloaded; its checksums are those of the checkout.
var ownWorkspace = []string{"GOWORK=off", "GOFLAGS=", "GOSUMDB=off"}

// follow runs the commands of each block of a page with a replace directive for a clone.
func follow(t *testing.T, page, dir string) {
	blocks := indentedBlock.FindAllString(read(t, page), -1)
	followed := 0
	for _, block := range blocks {
		if !strings.Contains(block, "=../sievedb") {
			continue
		}
		followed++
		for line := range strings.Lines(strings.TrimSpace(block)) {
			words := strings.Fields(line)
			require.Equal(t, "go", words[0], page)
			run(t, dir, ownWorkspace, words[0], words[1:]...)
		}
	}
	require.NotZero(t, followed, page)
}

// The pages said to clone the repository, and not how a module uses the clone. The short form of the test finds all
// packages; the other one also builds and runs the program.
func TestAModuleUsesACloneAsThePagesSay(t *testing.T) {
	quickstart := read(t, "README.md")
	for _, page := range []string{"README.md", "docs/getting-started.md"} {
		dir := nextToClone(t, "package main\n"+between(t, quickstart, "```go\npackage main\n", "```"))
		follow(t, page, dir)
		require.Contains(t, strings.Fields(run(t, dir, ownWorkspace, "go", "list", "-deps", ".")), library+"/db")
		if !testing.Short() {
			require.Equal(t, between(t, quickstart, "It prints\n\n```text\n", "```"), run(t, dir, ownWorkspace, "go", "run", "."))
		}
	}
}

func TestAGoleveldbProgramUsesACloneAsThePageSays(t *testing.T) {
	dir := nextToClone(t, onGoleveldb)
	run(t, dir, ownWorkspace, "go", "mod", "edit", "-require=github.com/syndtr/goleveldb@v1.0.1-0.20220721030215-126854af5e6d")
	follow(t, "docs/migration.md", dir)
	require.Contains(t, strings.Fields(run(t, dir, ownWorkspace, "go", "list", "-deps", ".")), library+"/db", "goleveldb itself is used")
	if !testing.Short() {
		require.Equal(t, "<nil>\n", run(t, dir, ownWorkspace, "go", "run", "."))
	}
}

// The page has the directives for a nested module in the text.
func TestANestedModuleIsUsedFromACloneAsThePageSays(t *testing.T) {
	dir := nextToClone(t, "package main\n\nimport _ \""+library+"/cluster\"\n\nfunc main() {}\n")
	run(t, dir, ownWorkspace, "go", "mod", "edit", "-replace="+library+"=../sievedb")
	directives := "-require=" + between(t, read(t, "docs/getting-started.md"), "`-require=", "`")
	run(t, dir, ownWorkspace, "go", append([]string{"mod", "edit"}, strings.Fields(directives)...)...)
	require.Contains(t, run(t, dir, ownWorkspace, "go", "list", "-mod=mod", "-deps", "."), library+"/cluster\n")
}

func TestReadmeCountsTheModulesThatProgramsLink(t *testing.T) {
	others := func(args ...string) int {
		paths := strings.Fields(run(t, root, nil, "go", append(append([]string{"list"}, args...), "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./db")...))
		slices.Sort(paths)
		return len(slices.Compact(paths)) - 1
	}
	require.Contains(t, strings.Join(strings.Fields(read(t, "README.md")), " "), fmt.Sprintf(
		"links %d modules of others, %d with the build tag `sievedb_stderrors`", others(), others("-tags", "sievedb_stderrors")))
}

// The sizes in README were a megabyte less than those of a build. Another compiler may differ by a little.
func TestReadmeHasTheSizeOfTheQuickstart(t *testing.T) {
	source := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(source, []byte("package main\n"+between(t, read(t, "README.md"), "```go\npackage main\n", "```")), 0o644))
	claim := regexp.MustCompile(`a program of ([\d.]+) MB \(([\d.]+) with the tag;`).FindStringSubmatch(strings.Join(strings.Fields(read(t, "README.md")), " "))
	require.NotNil(t, claim)
	builds := []string{"", "sievedb_stderrors"}
	if testing.Short() {
		builds = builds[:1] // the tag compiles most packages anew
	}
	for i, tags := range builds {
		program := filepath.Join(t.TempDir(), "quickstart")
		run(t, root, []string{"GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS="}, "go", "build", "-tags", tags, "-o", program, source)
		info, err := os.Stat(program)
		require.NoError(t, err)
		megabytes, err := strconv.ParseFloat(claim[i+1], 64)
		require.NoError(t, err)
		require.InDelta(t, float64(info.Size())/1e6, megabytes, 0.15, "tags %q; make sizes has what README should say", tags)
	}
}

var lintersNeed = regexp.MustCompile(`linters need Go (1\.\d+)`)

// The library needs Go 1.25, but its linters are programs of others that need a later one.
func TestContributingSaysWhichGoTheLintersNeed(t *testing.T) {
	m := lintersNeed.FindStringSubmatch(strings.Join(strings.Fields(read(t, "CONTRIBUTING.md")), " "))
	require.NotNil(t, m)
	newest := "go1.25"
	for _, tool := range regexp.MustCompile(`(?m)^(?:STATICCHECK|PROSE) +\?= (\S+)/cmd/\w+@(\S+)$`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		required := strings.TrimSpace(run(t, t.TempDir(), ownWorkspace, "go", "list", "-m", "-f", "{{.GoVersion}}", tool[1]+"@"+tool[2]))
		if language := version.Lang("go" + required); version.Compare(language, newest) > 0 {
			newest = language
		}
	}
	require.Equal(t, newest, "go"+m[1])
}
