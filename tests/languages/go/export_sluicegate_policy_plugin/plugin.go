// Package export_sluicegate_policy_plugin says who the plugin is and takes its configuration.
package export_sluicegate_policy_plugin

import (
	"bytes"
	"encoding/json"

	. "go.bytecodealliance.org/pkg/wit/types"
	"wit_component/sluicegate_policy_columns"
	"wit_component/sluicegate_policy_plugin"
)

// Column and Floor are what Configure was told.
var (
	Column uint32
	Floor  float32
)

// Describe says who the plugin is.
func Describe() sluicegate_policy_plugin.Manifest {
	return sluicegate_policy_plugin.Manifest{
		Name:          "least-requests",
		Version:       "1.0.0",
		Summary:       "prefers small values of a column, in Go",
		DefaultWeight: 1,
	}
}

// Configure resolves the column.
func Configure(config string) Result[Unit, string] {
	settings := struct {
		Column string  `json:"column"`
		Floor  float32 `json:"floor"`
	}{Column: "load.requests"}
	decoder := json.NewDecoder(bytes.NewReader([]byte(config)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&settings); err != nil {
		return Err[Unit, string](err.Error())
	}
	column := sluicegate_policy_columns.Resolve(settings.Column)
	if column.Tag() == ResultErr {
		return Err[Unit, string](column.Err())
	}
	Column, Floor = column.Ok(), settings.Floor
	return Ok[Unit, string](Unit{})
}
