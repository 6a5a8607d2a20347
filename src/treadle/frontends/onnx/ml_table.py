"""Operator of ai.onnx.ml -> rule, one line each. What has no line here runs by ONNX's reference implementation."""

from treadle.frontends.onnx.rules import categories, encoders, features, linear_model, svm, tree_ensemble, trees
from treadle.frontends.onnx.rules.rule import Rule

RULES: dict[str, Rule] = {
    "ArrayFeatureExtractor": features.array_feature_extractor,
    "Binarizer": features.binarizer,
    "CategoryMapper": categories.category_mapper,
    "Imputer": features.imputer,
    "LabelEncoder": encoders.label_encoder,
    "LinearClassifier": linear_model.linear_classifier,
    "LinearRegressor": linear_model.linear_regressor,
    "Normalizer": features.normalizer,
    "OneHotEncoder": encoders.one_hot_encoder,
    "SVMClassifier": svm.svm_classifier,
    "SVMRegressor": svm.svm_regressor,
    "Scaler": features.scaler,
    "TreeEnsemble": tree_ensemble.tree_ensemble,
    "TreeEnsembleClassifier": trees.tree_classifier,
    "TreeEnsembleRegressor": trees.tree_regressor,
}
