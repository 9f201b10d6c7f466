//! A walk over a template's syntax, collecting what tells its shape.

use minijinja::machinery::ast::{Call, CallArg, Expr, Macro, Stmt};

/// One `for`.
pub(super) struct Loop<'a, 't> {
    /// The name of its variable, when it has one.
    pub(super) target: Option<&'a str>,
    pub(super) iter: &'t Expr<'a>,
    /// The innermost macro around it.
    pub(super) within: Option<usize>,
}

/// What was met.
#[derive(Default)]
pub(super) struct Found<'a, 't> {
    pub(super) loops: Vec<Loop<'a, 't>>,
    pub(super) sets: Vec<(&'t Expr<'a>, &'t Expr<'a>)>,
    /// Names and parameters.
    pub(super) macros: Vec<(&'a str, Vec<&'a str>)>,
    pub(super) calls: Vec<&'t Call<'a>>,
    /// Members that are read and not called.
    pub(super) members: Vec<&'a str>,
}

impl<'a, 't> Found<'a, 't> {
    /// Walks a statement of the macro `within`.
    pub(super) fn statement(&mut self, statement: &'t Stmt<'a>, within: Option<usize>) {
        match statement {
            Stmt::Template(template) => self.all(&template.children, within),
            Stmt::EmitExpr(emit) => self.expression(&emit.expr),
            Stmt::ForLoop(of) => {
                let target = if let Expr::Var(var) = &of.target { Some(var.id) } else { None };
                self.loops.push(Loop { target, iter: &of.iter, within });
                self.expression(&of.iter);
                self.maybe(of.filter_expr.as_ref());
                self.all(&of.body, within);
                self.all(&of.else_body, within);
            }
            Stmt::IfCond(of) => {
                self.expression(&of.expr);
                self.all(&of.true_body, within);
                self.all(&of.false_body, within);
            }
            Stmt::WithBlock(of) => {
                of.assignments.iter().for_each(|(_, value)| self.expression(value));
                self.all(&of.body, within);
            }
            Stmt::Set(of) => {
                self.sets.push((&of.target, &of.expr));
                self.expression(&of.expr);
            }
            Stmt::SetBlock(of) => {
                self.maybe(of.filter.as_ref());
                self.all(&of.body, within);
            }
            Stmt::AutoEscape(of) => self.all(&of.body, within),
            Stmt::FilterBlock(of) => {
                self.expression(&of.filter);
                self.all(&of.body, within);
            }
            Stmt::Macro(of) => self.define(of),
            Stmt::CallBlock(of) => {
                self.call(&of.call);
                self.define(&of.macro_decl);
            }
            Stmt::Do(of) => self.call(&of.call),
            Stmt::EmitRaw(_) | Stmt::Continue(_) | Stmt::Break(_) => {}
        }
    }

    fn all(&mut self, statements: &'t [Stmt<'a>], within: Option<usize>) {
        statements.iter().for_each(|statement| self.statement(statement, within));
    }

    fn define(&mut self, of: &'t Macro<'a>) {
        let parameters =
            of.args.iter().filter_map(|arg| if let Expr::Var(var) = arg { Some(var.id) } else { None });
        self.macros.push((of.name, parameters.collect()));
        let within = self.macros.len().checked_sub(1);
        of.defaults.iter().for_each(|value| self.expression(value));
        self.all(&of.body, within);
    }

    fn call(&mut self, call: &'t Call<'a>) {
        self.calls.push(call);
        match &call.expr {
            // A method: its name is no member that is read.
            Expr::GetAttr(get) => self.expression(&get.expr),
            other => self.expression(other),
        }
        self.arguments(&call.args);
    }

    fn arguments(&mut self, arguments: &'t [CallArg<'a>]) {
        for argument in arguments {
            let (CallArg::Pos(value)
            | CallArg::Kwarg(_, value)
            | CallArg::PosSplat(value)
            | CallArg::KwargSplat(value)) = argument;
            self.expression(value);
        }
    }

    fn maybe(&mut self, expr: Option<&'t Expr<'a>>) {
        if let Some(expr) = expr {
            self.expression(expr);
        }
    }

    fn expression(&mut self, expr: &'t Expr<'a>) {
        match expr {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(of) => {
                self.expression(&of.expr);
                [&of.start, &of.stop, &of.step].into_iter().for_each(|part| self.maybe(part.as_ref()));
            }
            Expr::UnaryOp(of) => self.expression(&of.expr),
            Expr::BinOp(of) => {
                self.expression(&of.left);
                self.expression(&of.right);
            }
            Expr::Compare(of) => {
                self.expression(&of.expr);
                of.ops.iter().for_each(|op| self.expression(&op.expr));
            }
            Expr::IfExpr(of) => {
                self.expression(&of.test_expr);
                self.expression(&of.true_expr);
                self.maybe(of.false_expr.as_ref());
            }
            Expr::Filter(of) => {
                self.maybe(of.expr.as_ref());
                self.arguments(&of.args);
            }
            Expr::Test(of) => {
                self.expression(&of.expr);
                self.arguments(&of.args);
            }
            Expr::GetAttr(of) => {
                self.members.push(of.name);
                self.expression(&of.expr);
            }
            Expr::GetItem(of) => {
                self.expression(&of.expr);
                self.expression(&of.subscript_expr);
            }
            Expr::Call(of) => self.call(of),
            Expr::List(of) => of.items.iter().for_each(|item| self.expression(item)),
            Expr::Tuple(of) => of.items.iter().for_each(|item| self.expression(item)),
            Expr::Map(of) => of.keys.iter().chain(&of.values).for_each(|item| self.expression(item)),
        }
    }
}
