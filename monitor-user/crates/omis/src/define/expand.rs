//! A request with the bodies of definitions in the place of their calls.
//!
//! What comes of it is bounded like a request that was written: a call within a call can double
//! what it is given, so room is taken before anything is copied.

use super::super::fault::Fault;
use super::super::limit;
use super::super::request::{Arg, Basic, Node, NodeRef, Request, Stage};
use super::super::status::Status;
use super::super::value::{Expr, Value, Var};
use super::{Definition, Definitions};

/// What may still be added.
struct Room {
    members: usize,
    bytes: usize,
}

/// A call, and what its definition calls its parameters.
struct Call<'c> {
    definition: &'c Definition,
    basic: &'c Basic,
}

impl Definitions {
    /// The request with the bodies in the place of the calls.
    pub fn expand(&self, request: &Request) -> Result<Request, Fault> {
        let mut room = Room { members: limit::REQUEST.members, bytes: limit::REQUEST.line };
        let mut stages = Vec::new();
        for stage in &request.stages {
            stages.extend(self.expand_stage(stage, &mut room)?);
        }
        Ok(Request { event: request.event.clone(), stages })
    }

    /// A stage remains one, unless the only request in it becomes several.
    fn expand_stage(&self, stage: &Stage, room: &mut Room) -> Result<Vec<Stage>, Fault> {
        if let [only] = stage.0.as_slice() {
            return self.expand_basic(only, room);
        }
        let mut members = Vec::new();
        for basic in &stage.0 {
            let [part] = &mut self.expand_basic(basic, room)?[..] else {
                let found = format!("`{}`, which has several stages", basic.service);
                let expected = "it alone between `;`".to_owned();
                return Err(basic.fault(Status::CLASS, found, expected));
            };
            members.append(&mut part.0);
        }
        Ok(vec![Stage(members)])
    }

    fn expand_basic(&self, basic: &Basic, room: &mut Room) -> Result<Vec<Stage>, Fault> {
        let Some(definition) = self.0.get(&basic.service) else {
            room.members = room.members.checked_sub(1).ok_or_else(|| too_much(basic))?;
            return Ok(vec![Stage(vec![basic.clone()])]);
        };
        let mut stages = Vec::new();
        for stage in (Call { definition, basic }).stages(room)? {
            stages.extend(self.expand_stage(&stage, room)?);
        }
        Ok(stages)
    }
}

impl Call<'_> {
    /// The body with the parameters of the call in it.
    fn stages(&self, room: &mut Room) -> Result<Vec<Stage>, Fault> {
        let (given, wanted) = (self.basic.args.len(), self.definition.params.len());
        if given != wanted {
            let found = format!("{given} parameters");
            return Err(self.basic.fault(Status::ARITY, found, wanted.to_string()));
        }
        self.take_room(room)?;
        let stage = |stage: &Stage| {
            let members = stage.0.iter().map(|basic| self.instance(basic));
            Ok(Stage(members.collect::<Result<_, _>>()?))
        };
        self.definition.body.iter().map(stage).collect()
    }

    fn take_room(&self, room: &mut Room) -> Result<(), Fault> {
        let weights: Vec<usize> =
            self.basic.args.iter().map(|arg| arg.expr.weight(&|_| 1)).collect();
        let of_var = |var: &Var| self.place(var).map_or(1, |place| weights[place]);
        let actions = self.definition.body.iter().flat_map(|stage| &stage.0);
        let args = actions.clone().flat_map(|basic| &basic.args);
        let nodes = actions.flat_map(|basic| basic.nodes.iter().flatten());
        let args = args.map(|arg| arg.expr.weight(&of_var));
        let nodes = nodes.map(|node| match node {
            NodeRef::Number(_) => 1,
            NodeRef::Var(var, _) => of_var(var),
        });
        let weight = args.chain(nodes).fold(0, usize::saturating_add);
        room.bytes = room.bytes.checked_sub(weight).ok_or_else(|| too_much(self.basic))?;
        Ok(())
    }

    /// A basic request of the body, as if it had been written in the place of the call.
    fn instance(&self, basic: &Basic) -> Result<Basic, Fault> {
        let (id, spot, service) = (self.basic.id, self.basic.spot, basic.service.clone());
        let nodes = match &basic.nodes {
            None => self.basic.nodes.clone(),
            Some(nodes) => {
                let nodes = nodes.iter().map(|node| self.nodes(node));
                Some(nodes.collect::<Result<Vec<_>, _>>()?.concat())
            }
        };
        let args = basic.args.iter().map(|arg| Arg { expr: self.expr(&arg.expr), spot });
        let args: Vec<Arg> = args.collect();
        if args.iter().any(|arg| arg.expr.depth() > limit::REQUEST.depth) {
            let most = format!("at most {}", limit::REQUEST.depth);
            return Err(self.basic.fault(Status::LIMIT, "more lists within lists".into(), most));
        }
        Ok(Basic { id, nodes, service, args, spot })
    }

    fn expr(&self, expr: &Expr) -> Expr {
        expr.substitute(&|var| self.replacement(var))
    }

    /// The parameter; what every event has stays for the event.
    fn replacement(&self, var: &Var) -> Expr {
        let param = self.place(var).map(|place| self.basic.args[place].expr.clone());
        param.unwrap_or_else(|| Expr::Var(var.clone()))
    }

    fn place(&self, var: &Var) -> Option<usize> {
        match var {
            Var::Named(name) => self.definition.params.iter().position(|param| param == name),
            Var::Position(_) => None,
        }
    }

    /// The nodes that an entry of a node list becomes: a parameter may be a list of them.
    fn nodes(&self, node: &NodeRef) -> Result<Vec<NodeRef>, Fault> {
        let NodeRef::Var(var, _) = node else { return Ok(vec![node.clone()]) };
        let one = |value: &Value| value.integer().map(|it| NodeRef::Number(Node(it)));
        let nodes = match self.replacement(var) {
            Expr::Value(Value::List(values)) => values.iter().map(one).collect::<Option<_>>(),
            Expr::Value(value) => one(&value).map(|node| vec![node]),
            Expr::Var(var) => Some(vec![NodeRef::Var(var, self.basic.spot)]),
            Expr::List(_) => None,
        };
        nodes.ok_or_else(|| {
            let found = format!("`{var}` in a node list");
            self.basic.fault(Status::TYPE, found, "node numbers in it".to_owned())
        })
    }
}

fn too_much(basic: &Basic) -> Fault {
    let most = format!("{} actions and {} bytes", limit::REQUEST.members, limit::REQUEST.line);
    basic.fault(Status::LIMIT, "a call that becomes too much".to_owned(), format!("at most {most}"))
}
