// Package docs_test checks the documents: quotations match the quoted files, links lead to existing targets, and named
// tests exist. It also checks which packages import which, and the sizes of packages, functions and structs.
package docs_test

import (
	"go/ast"
	"go/types"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const root = ".."

// documents returns the Markdown files of the repository, by their path from the root.
func documents(t *testing.T) (names []string) {
	for _, f := range filesThatEnd(t, ".md") {
		names = append(names, f.name)
	}
	require.Greater(t, len(names), 70)
	return names
}

// Table rows and images cannot be wrapped. All other lines have at most 120 columns, code too.
func TestMarkdownLinesAreShort(t *testing.T) {
	for _, f := range filesThatEnd(t, ".md") {
		for i, line := range strings.Split(f.text, "\n") {
			if !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "![") {
				require.LessOrEqual(t, utf8.RuneCountInString(line), 120, "%s:%d", f.name, i+1)
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// between returns the part of text from the first begin to the next end, without both.
func between(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, after, ok := strings.Cut(text, begin)
	require.True(t, ok, "%q is missing", begin)
	part, _, ok := strings.Cut(after, end)
	require.True(t, ok, "%q is missing after %q", end, begin)
	return part
}

var quotation = regexp.MustCompile("(?m)^From \\[`([^`]+)`\\]\\(\\.\\./([^)]+)\\):\n\n```text\n((?:.*\n)*?)```$")

// The tests of each package decode and encode its files. This test compares the page with the files.
func TestFormatQuotesWorkedBytesExactly(t *testing.T) {
	page := read(t, "docs/format.md")
	quoted := map[string]bool{}
	quotations := quotation.FindAllStringSubmatch(page, -1)
	require.Len(t, quotations, strings.Count(page, "\nFrom [`"), "a quotation is not in the form that this test reads")
	for _, q := range quotations {
		require.Equal(t, q[1], q[2], "the link leads to another file than its text names")
		require.Contains(t, "\n"+read(t, q[1]), "\n"+q[3], q[1])
		quoted[q[1]] = true
	}
	for _, structure := range []string{
		"db/testdata/batch.hex", "internal/base/testdata/ikey.hex", "internal/disk/manifest/testdata/closed.hex",
		"internal/work/changes/testdata/event.hex", "internal/work/changes/testdata/cursors.txt",
		"internal/disk/manifest/testdata/current.hex", "internal/disk/manifest/testdata/edit.hex", "internal/disk/manifest/testdata/recorded.hex",
		"internal/disk/manifest/testdata/values.hex",
		"internal/disk/manifest/testdata/options.hex",
		"internal/disk/wal/testdata/logs.txt",
		"sstable/testdata/block.hex", "sstable/testdata/filter_block.hex", "sstable/testdata/filter_block_leveldb.hex",
		"sstable/testdata/filter_block_lines.hex", "sstable/testdata/footer.hex", "sstable/testdata/metaindex_two_filters.hex",
		"sstable/testdata/three_entries.hex",
	} {
		require.True(t, quoted[structure], "%s is not quoted", structure)
	}
}

func TestQuickstartIsTheExample(t *testing.T) {
	page, source := read(t, "README.md"), read(t, "db/example_test.go")
	want := between(t, source, "func Example() {\n", "\t// Output:\n")
	require.Equal(t, want, between(t, page, "func main() {\n", "}\n```"))

	output := between(t, source, "\t// Output:\n", "}\n")
	output = strings.ReplaceAll(output, "\t// ", "")
	require.Equal(t, output, between(t, page, "It prints\n\n```text\n", "```"))
}

// The code in the package comments that opens a store is copied from an example.
func TestCodeInPackageCommentsIsAnExample(t *testing.T) {
	for _, dir := range []string{".", "db"} {
		var code strings.Builder
		comment := between(t, read(t, path.Join(dir, "doc.go")), "//\tstore, ", "\n// ")
		for line := range strings.Lines("store, " + comment) {
			code.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "//"), "\t"))
		}
		indented := "\t" + strings.ReplaceAll(strings.TrimSpace(code.String()), "\n", "\n\t")
		indented = strings.ReplaceAll(indented, "\n\t\n", "\n\n")
		require.Contains(t, read(t, "db/example_test.go"), "\n"+indented+"\n", "%s/doc.go", dir)
	}
}

var link = regexp.MustCompile(`\]\(([^)]+)\)`)

func TestLinkTargetsExist(t *testing.T) {
	for _, name := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			u, err := url.Parse(m[1])
			require.NoError(t, err, "%s: %s", name, m[1])
			if u.Scheme != "" {
				continue
			}
			target := name
			if u.Path != "" {
				target = path.Join(path.Dir(name), u.Path)
			}
			_, err = os.Stat(filepath.Join(root, filepath.FromSlash(target)))
			require.NoError(t, err, "%s: %s", name, m[1])
			if u.Fragment != "" {
				require.Contains(t, anchors(read(t, target)), u.Fragment, "%s: %s", name, m[1])
			}
		}
	}
}

var notInAnchors = regexp.MustCompile(`[^a-z0-9 _-]`)

// anchors returns the fragments of the page's headings, as GitHub makes them.
func anchors(page string) []string {
	var all []string
	for line := range strings.Lines(page) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			plain := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			all = append(all, strings.ReplaceAll(plain, " ", "-"))
		}
	}
	return all
}

var testName = regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Za-z0-9_]*(?:/[^`]*)?)`")

// testNames returns the names of all tests, fuzz targets and examples, and of scripts.
func testNames(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, dir := range []string{"*", "internal/*/*"} {
		scripts, err := filepath.Glob(filepath.Join(root, dir, "testdata/scripts/*"))
		require.NoError(t, err)
		for _, script := range scripts {
			names["TestScripts/"+filepath.Base(script)] = true
		}
	}
	for _, f := range goFiles(t) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.isTest() && fn.Recv == nil && testName.MatchString("`"+fn.Name.Name+"`") {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}

func TestNamedTestsExist(t *testing.T) {
	names := testNames(t)
	for _, name := range documents(t) {
		for _, m := range testName.FindAllStringSubmatch(read(t, name), -1) {
			require.True(t, names[m[1]], "%s, named in %s, does not exist", m[1], name)
		}
	}
}

// Examples call the variable store. A variable named db would hide the package, and db.ErrNotFound
// would not compile in copied code.
func TestExamplesNameTheVariableStore(t *testing.T) {
	opened := regexp.MustCompile(`(\S+), \w+ :?= db\.Open\(`)
	examples := 0
	for _, f := range filesThatEnd(t, "") {
		base := path.Base(f.name)
		if !strings.HasSuffix(base, ".md") && base != "example_test.go" && base != "doc.go" && !strings.HasPrefix(f.name, "cmd/") {
			continue
		}
		for _, m := range opened.FindAllStringSubmatch(f.text, -1) {
			require.Contains(t, []string{"store", "s.store"}, m[1], "%s: %s", f.name, m[0])
			examples++
		}
	}
	require.Greater(t, examples, 10, "calls of db.Open")
}

var runPattern = regexp.MustCompile(`go\)? test[^\n]*? -run '?([A-Za-z|.*$]+)'?`)

// A -run pattern that matches no test passes and tests nothing.
func TestRunPatternsMatchTests(t *testing.T) {
	tests := strings.Join(slices.Collect(maps.Keys(testNames(t))), "\n")
	patterns := 0
	for _, name := range append(documents(t), "Makefile") {
		for _, m := range runPattern.FindAllStringSubmatch(strings.ReplaceAll(read(t, name), "$(GO)", "go"), -1) {
			for alternative := range strings.SplitSeq(strings.ReplaceAll(m[1], "$$", "$"), "|") {
				if strings.Trim(alternative, "^$") == "" { // no test, but benchmarks or fuzzing
					continue
				}
				pattern := regexp.MustCompile(`(?m)^(Test|Fuzz)\w*` + strings.TrimPrefix(strings.TrimSuffix(alternative, "$"), "Test"))
				require.True(t, pattern.MatchString(tests), "%s: no test matches -run %s", name, alternative)
				patterns++
			}
		}
	}
	require.Greater(t, patterns, 25)
}

// The page of namespaces has every method of a namespace.
func TestNamespacesNamesEveryMethod(t *testing.T) {
	page, methods := read(t, "docs/namespaces.md"), 0
	for _, f := range goFiles(t) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && strings.HasPrefix(f.name, "db/") && fn.Recv != nil && fn.Name.IsExported() && types.ExprString(fn.Recv.List[0].Type) == "*Namespace" {
				methods++
				require.Regexp(t, "`(\\w+\\.)?"+fn.Name.Name+"[`(]", page)
			}
		}
	}
	require.Greater(t, methods, 20)
}
