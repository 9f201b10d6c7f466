// What the bindings of `wit-bindgen go` need of the module of this name, and no more.
module go.bytecodealliance.org/pkg

go 1.25
