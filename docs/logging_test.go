package docs_test

import (
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// logRecord is a message of the log with what it has.
type logRecord struct {
	level      string
	attributes []string
}

// logCall returns the message of a call of a logger, and its record.
func logCall(node ast.Node) (message string, r logRecord, ok bool) {
	call, isCall := node.(*ast.CallExpr)
	if !isCall || len(call.Args) == 0 {
		return "", r, false
	}
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, method.Sel.Name) {
		return "", r, false
	}
	switch of := method.X.(type) {
	case *ast.Ident:
		ok = strings.HasSuffix(of.Name, "ogger")
	case *ast.SelectorExpr:
		ok = of.Sel.Name == "Logger"
	}
	if !ok {
		return "", r, false
	}
	r.level = strings.ToLower(method.Sel.Name)
	for i, arg := range call.Args {
		text := "not a constant"
		if literal, isLiteral := arg.(*ast.BasicLit); isLiteral {
			text, _ = strconv.Unquote(literal.Value)
		}
		switch {
		case i == 0:
			message = text
		case i%2 == 1:
			r.attributes = append(r.attributes, text)
		}
	}
	return message, r, true
}

// logRecords returns the records of the code. Calls with one message are one record.
func logRecords(t *testing.T) map[string]logRecord {
	all := map[string]logRecord{}
	for _, f := range goFiles(t) {
		if f.isTest() || strings.HasPrefix(f.name, "cluster/") { // a server's own log, for people
			continue
		}
		ast.Inspect(f.File, func(node ast.Node) bool {
			if message, r, ok := logCall(node); ok {
				r.attributes = slices.Compact(slices.Sorted(slices.Values(append(r.attributes, all[message].attributes...))))
				all[message] = r
			}
			return true
		})
	}
	return all
}

// The table of log records in monitoring.md has the messages, levels and attributes of the code.
func TestLogRecordsAreThoseOfTheTable(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\w+) \\| ([^|]*)\\| [^|]+ \\|$")
	listed := map[string]logRecord{}
	for _, m := range row.FindAllStringSubmatch(read(t, "docs/monitoring.md"), -1) {
		r := logRecord{level: m[2]}
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[3], -1) {
			r.attributes = append(r.attributes, name[1])
		}
		listed[m[1]] = r
	}
	found := logRecords(t)
	require.Greater(t, len(found), 20)
	for message, r := range found {
		require.Contains(t, listed, message, "docs/monitoring.md lacks this message")
		require.Equal(t, r, listed[message], message)
	}
	require.Len(t, listed, len(found), "docs/monitoring.md has messages that the code does not log")
}
