package overview

import "runtime/debug"

const module = "github.com/sievedb/sievedb/cluster"

// Version returns the version of this module in the running program, or the commit that it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dep := range append(info.Deps, &info.Main) {
		if dep.Path == module && dep.Version != "" && dep.Version != "(devel)" {
			return dep.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return "development"
}
