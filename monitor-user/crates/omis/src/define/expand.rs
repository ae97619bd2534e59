//! Expands calls of defined services into their bodies.
//!
//! In: a request and the definitions. Out: the request with built-in services only.
//! The result is bounded like a parsed request: nested calls can double their parameters, so the
//! budget is charged before anything is copied.

use super::{Definition, Definitions};
use crate::{Arg, Basic, Expr, Fault, Node, NodeRef, Request, Stage, Status, Value, Var, limit};

/// What the expansion may still add.
struct ExpansionBudget {
    members: usize,
    bytes: usize,
}

/// A call and the definition that it calls.
struct Call<'c> {
    definition: &'c Definition,
    basic: &'c Basic,
}

impl Definitions {
    /// Returns the request with each call replaced by the body of its definition.
    ///
    /// # Errors
    ///
    /// Fails if a call does not fit its definition, or the result would exceed the limits of a
    /// request.
    pub fn expand(&self, request: &Request) -> Result<Request, Fault> {
        let mut budget =
            ExpansionBudget { members: limit::REQUEST.members, bytes: limit::REQUEST.line };
        let mut stages = Vec::new();
        for stage in &request.stages {
            stages.extend(self.expand_stage(stage, &mut budget)?);
        }
        Ok(Request { event: request.event.clone(), stages })
    }

    /// A stage stays one stage, unless its only request expands to several.
    fn expand_stage(
        &self,
        stage: &Stage,
        budget: &mut ExpansionBudget,
    ) -> Result<Vec<Stage>, Fault> {
        if let [only] = stage.0.as_slice() {
            return self.expand_basic(only, budget);
        }
        let mut members = Vec::new();
        for basic in &stage.0 {
            let [part] = &mut self.expand_basic(basic, budget)?[..] else {
                let found = format!("`{}`, which has several stages", basic.service);
                let expected = "no other request in its stage".to_owned();
                return Err(basic.fault(Status::CLASS, found, expected));
            };
            members.append(&mut part.0);
        }
        Ok(vec![Stage(members)])
    }

    fn expand_basic(
        &self,
        basic: &Basic,
        budget: &mut ExpansionBudget,
    ) -> Result<Vec<Stage>, Fault> {
        let Some(definition) = self.0.get(&basic.service) else {
            budget.members = budget.members.checked_sub(1).ok_or_else(|| too_much(basic))?;
            return Ok(vec![Stage(vec![basic.clone()])]);
        };
        let mut stages = Vec::new();
        for stage in (Call { definition, basic }).stages(budget)? {
            stages.extend(self.expand_stage(&stage, budget)?);
        }
        Ok(stages)
    }
}

impl Call<'_> {
    /// Returns the body with the parameters of the call substituted.
    fn stages(&self, budget: &mut ExpansionBudget) -> Result<Vec<Stage>, Fault> {
        let (given, wanted) = (self.basic.args.len(), self.definition.params.len());
        if given != wanted {
            let found = format!("{given} parameters");
            return Err(self.basic.fault(Status::ARITY, found, wanted.to_string()));
        }
        self.reserve(budget)?;
        let stage = |stage: &Stage| {
            let members = stage.0.iter().map(|basic| self.instance(basic));
            Ok(Stage(members.collect::<Result<_, _>>()?))
        };
        self.definition.body.iter().map(stage).collect()
    }

    fn reserve(&self, budget: &mut ExpansionBudget) -> Result<(), Fault> {
        let weights: Vec<usize> =
            self.basic.args.iter().map(|arg| arg.expr.weight(&|_| 1)).collect();
        let of_var = |var: &Var| self.param_index(var).map_or(1, |index| weights[index]);
        let actions = self.definition.body.iter().flat_map(|stage| &stage.0);
        let args = actions.clone().flat_map(|basic| &basic.args);
        let nodes = actions.flat_map(|basic| basic.nodes.iter().flatten());
        let args = args.map(|arg| arg.expr.weight(&of_var));
        let nodes = nodes.map(|node| match node {
            NodeRef::Number(_) => 1,
            NodeRef::Var(var, _) => of_var(var),
        });
        let weight = args.chain(nodes).fold(0, usize::saturating_add);
        budget.bytes = budget.bytes.checked_sub(weight).ok_or_else(|| too_much(self.basic))?;
        Ok(())
    }

    /// Returns a basic request of the body, with the number and position of the call.
    fn instance(&self, basic: &Basic) -> Result<Basic, Fault> {
        let (id, pos, service) = (self.basic.id, self.basic.pos, basic.service.clone());
        let nodes = match &basic.nodes {
            None => self.basic.nodes.clone(),
            Some(nodes) => {
                let nodes = nodes.iter().map(|node| self.nodes(node));
                Some(nodes.collect::<Result<Vec<_>, _>>()?.concat())
            }
        };
        let args = basic.args.iter().map(|arg| Arg { expr: self.expr(&arg.expr), pos });
        let args: Vec<Arg> = args.collect();
        if args.iter().any(|arg| arg.expr.depth() > limit::REQUEST.depth) {
            let most = format!("at most {}", limit::REQUEST.depth);
            return Err(self.basic.fault(Status::LIMIT, "deeper nested lists".into(), most));
        }
        Ok(Basic { id, nodes, service, args, pos })
    }

    fn expr(&self, expr: &Expr) -> Expr {
        expr.substitute(&|var| self.replacement(var))
    }

    /// Returns the parameter that the variable names; variables of the event stay variables.
    fn replacement(&self, var: &Var) -> Expr {
        let param = self.param_index(var).map(|index| self.basic.args[index].expr.clone());
        param.unwrap_or_else(|| Expr::Var(var.clone()))
    }

    fn param_index(&self, var: &Var) -> Option<usize> {
        match var {
            Var::Named(name) => self.definition.params.iter().position(|param| param == name),
            Var::Position(_) => None,
        }
    }

    /// Expands an entry of a node list: a parameter may be a list of nodes.
    fn nodes(&self, node: &NodeRef) -> Result<Vec<NodeRef>, Fault> {
        let NodeRef::Var(var, _) = node else { return Ok(vec![node.clone()]) };
        let one = |value: &Value| value.integer().map(|it| NodeRef::Number(Node(it)));
        let nodes = match self.replacement(var) {
            Expr::Value(Value::List(values)) => values.iter().map(one).collect::<Option<_>>(),
            Expr::Value(value) => one(&value).map(|node| vec![node]),
            Expr::Var(var) => Some(vec![NodeRef::Var(var, self.basic.pos)]),
            Expr::List(_) => None,
        };
        nodes.ok_or_else(|| {
            let found = format!("`{var}` in a node list");
            self.basic.fault(Status::TYPE, found, "node numbers".to_owned())
        })
    }
}

fn too_much(basic: &Basic) -> Fault {
    let most = format!("{} actions and {} bytes", limit::REQUEST.members, limit::REQUEST.line);
    basic.fault(Status::LIMIT, "a call that expands too far".to_owned(), format!("at most {most}"))
}
