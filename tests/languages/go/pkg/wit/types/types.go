// Package types holds the types of the component model that Go has not got.
package types

// Unit is nothing.
type Unit struct{}

// Tags of options and results.
const (
	OptionNone uint8 = iota
	OptionSome
)
const (
	ResultOk uint8 = iota
	ResultErr
)

// Option is a value or none.
type Option[T any] struct {
	tag   uint8
	value T
}

func None[T any]() Option[T]        { return Option[T]{} }
func Some[T any](value T) Option[T] { return Option[T]{OptionSome, value} }
func (o Option[T]) Tag() uint8      { return o.tag }
func (o Option[T]) Some() T         { return o.value }

// Result is a value or an error.
type Result[T, E any] struct {
	tag   uint8
	value T
	err   E
}

func Ok[T, E any](value T) Result[T, E] { return Result[T, E]{value: value} }
func Err[T, E any](err E) Result[T, E]  { return Result[T, E]{tag: ResultErr, err: err} }
func (r Result[T, E]) Tag() uint8       { return r.tag }
func (r Result[T, E]) Ok() T            { return r.value }
func (r Result[T, E]) Err() E           { return r.err }

// Tuple2 is a pair.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}
